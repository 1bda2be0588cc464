"""One example of every message type, with every field away from its default, and all message types there are."""

import numpy as np

from banyan.wire.base import Message, make_uid
from banyan.wire.control import (
    CloseSessionReqInput,
    ContinueGenerationReqInput,
    ControlReply,
    ControlReq,
    Failed,
    FlushCacheReqInput,
    GetServerInfoReq,
    LoadReport,
    OpenSessionReqInput,
    PauseGenerationReqInput,
    PeerLost,
    PeerRestarted,
    ProbeReply,
    ProfileReq,
    Ready,
    ServerInfo,
)
from banyan.wire.output import (
    BatchEmbeddingOut,
    BatchStrOut,
    BatchTokenIDOut,
    Finished,
    FinishReason,
    HiddenStates,
    Logprobs,
    Opened,
)
from banyan.wire.request import (
    AbortAllReq,
    AbortReq,
    GrammarSpec,
    LogprobSpec,
    ProbeReq,
    SamplingParams,
    SessionRef,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)

UID = make_uid(3, 7)


def ints(*values: int) -> bytes:
    """Make an int32 column."""
    return np.array(values, np.int32).tobytes()


def longs(*values: int) -> bytes:
    """Make an int64 column."""
    return np.array(values, np.int64).tobytes()


def floats(*values: float) -> bytes:
    """Make a float32 column."""
    return np.array(values, np.float32).tobytes()


GRAMMAR = GrammarSpec(kind="regex", source="[ab]+")
SAMPLING = SamplingParams(
    max_new_tokens=64,
    min_new_tokens=2,
    temperature=0.5,
    top_p=0.75,
    top_k=40,
    min_p=0.25,
    frequency_penalty=0.5,
    presence_penalty=-0.5,
    repetition_penalty=1.5,
    n=2,
    stop=("###", "é"),
    stop_token_ids=(256, 7),
    stop_regex=("a+b",),
    ignore_eos=True,
    no_stop_trim=True,
    skip_special_tokens=False,
    spaces_between_special_tokens=False,
    sampling_seed=2**63 - 1,
    logit_bias=((5, -1.5),),
    grammar=GRAMMAR,
)
LOGPROB_SPEC = LogprobSpec(start=0, top=2, token_ids=(1, 2))
SESSION = SessionRef(id="talk", offset=12, replace=True)
REASON = FinishReason(kind="error", matched="###", message="rejected", status=503)
OPENED = Opened(
    uid=UID,
    epoch=1,
    rid="r-1",
    context=ints(1, 2),
    committed=ints(3),
    stop=("###",),
    stop_regex=("a+b",),
    min_new_tokens=2,
    no_stop_trim=True,
    skip_special_tokens=False,
    spaces_between_special_tokens=False,
    prompt_tokens=9,
    cached_tokens=8,
)
FINISHED = Finished(
    row=1,
    reason=REASON,
    prompt_tokens=9,
    cached_tokens=8,
    completion_tokens=3,
    retractions=1,
    queue_s=0.5,
    prefill_s=0.25,
    decode_s=2.0,
)
LOGPROBS = Logprobs(
    row=0,
    values=floats(-0.5),
    top=2,
    top_ids=ints(1, 2),
    top_values=floats(-0.5, -1.5),
    chosen=floats(-3.0),
    prompt_start=1,
    prompt_values=floats(-0.25),
    prompt_top_ids=ints(4, 5),
    prompt_top_values=floats(-0.25, -0.75),
    prompt_chosen=floats(-9.0),
)
HIDDEN_STATES = HiddenStates(row=1, dim=2, values=floats(0.5, -0.5, 1.0, 2.0))
GENERATE = TokenizedGenerateReqInput(
    uid=UID,
    rid="r-1",
    epoch=1,
    tokens=ints(257, 104, 105),
    committed=ints(33),
    sampling=SAMPLING,
    seed=42,
    stream=True,
    logprobs=LOGPROB_SPEC,
    return_hidden_states=True,
    lora="adapter",
    salt="tenant",
    priority=-3,
    session=SESSION,
    queue_timeout_s=1.5,
)
TOKEN_IDS = BatchTokenIDOut(
    replica=1,
    uids=longs(UID, UID + 1),
    epochs=ints(0, 1),
    positions=ints(4, 0),
    counts=ints(1, 2),
    tokens=ints(10, 11, 12),
    opened=(OPENED,),
    finished=(FINISHED,),
    logprobs=(LOGPROBS,),
    hidden_states=(HIDDEN_STATES,),
)
STRINGS = BatchStrOut(
    replica=1,
    uids=longs(UID, UID + 1),
    epochs=ints(0, 1),
    positions=ints(4, 0),
    counts=ints(1, 2),
    tokens=ints(10, 11, 12),
    texts=("a", "üb"),
    text_offsets=ints(4, 0),
    finished=(FINISHED,),
    logprobs=(LOGPROBS,),
    hidden_states=(HIDDEN_STATES,),
)
SERVER_INFO = ServerInfo(**{name: number for number, name in enumerate(ServerInfo.__struct_fields__, start=1)})

EXAMPLES: tuple[Message, ...] = (
    GRAMMAR,
    SAMPLING,
    LOGPROB_SPEC,
    SESSION,
    GENERATE,
    TokenizedEmbeddingReqInput(
        uid=UID,
        rid="e-1",
        epoch=1,
        tokens=ints(257, 104),
        salt="tenant",
        lora="adapter",
        priority=5,
        queue_timeout_s=2.5,
    ),
    AbortReq(uids=longs(UID, UID + 1), below=ints(1, 2), reason="gone", quiet=True),
    AbortAllReq(front=3, reason="drain"),
    ProbeReq(front=3, uids=longs(UID), epochs=ints(1)),
    REASON,
    OPENED,
    FINISHED,
    LOGPROBS,
    HIDDEN_STATES,
    TOKEN_IDS,
    STRINGS,
    BatchEmbeddingOut(
        replica=1,
        uids=longs(UID, UID + 1),
        epochs=ints(0, 0),
        dim=2,
        vectors=floats(0.5, 0.25, 0.0, 0.0),
        finished=(FINISHED,),
    ),
    FlushCacheReqInput(front=3, call=1),
    GetServerInfoReq(front=3, call=2),
    PauseGenerationReqInput(front=3, call=3, retract=True),
    ContinueGenerationReqInput(front=3, call=4),
    OpenSessionReqInput(front=3, call=5, id="talk", capacity=4096),
    CloseSessionReqInput(front=3, call=6, id="talk"),
    ProfileReq(front=3, call=7, action="start"),
    SERVER_INFO,
    ControlReply(front=3, call=2, replica=1, ok=False, message="no", info=SERVER_INFO),
    ProbeReply(front=3, replica=1, uids=longs(UID), epochs=ints(-1), next=ints(0)),
    LoadReport(replica=1, running=2, waiting=3, waiting_tokens=40, used_tokens=50, total_tokens=60),
    PeerRestarted(
        kind="scheduler",
        index=1,
        incarnation=2,
        cause="SIGSEGV",
        deliberate=True,
        suspects=longs(UID, UID + 1),
        newcomers=longs(UID),
    ),
    PeerLost(kind="controller", index=0, cause="restart budget spent"),
    Ready(schema="00ff", pid=1234, max_total_num_tokens=65536, max_req_input_len=4096),
    Failed(reason="no memory"),
)


def message_types() -> list[type[Message]]:
    """List every message type that can exist as an object: ControlReq is only a base."""
    found: list[type[Message]] = []
    todo: list[type[Message]] = [Message]
    while todo:
        subclasses = todo.pop().__subclasses__()
        todo.extend(subclasses)
        found.extend(kind for kind in subclasses if kind is not ControlReq and kind.__module__.startswith("banyan."))
    return found
