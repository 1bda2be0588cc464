"""Merges of a SentencePiece vocabulary: which two pieces make a third, best score first."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from banyan.wire.base import Bool


def merges_of_pieces(ids: Mapping[str, int], scores: npt.NDArray[np.float32], allowed: Bool) -> list[tuple[str, str]]:
    """List all pairs of pieces that make an allowed piece, in the order in which they are to be put together.

    A vocabulary says how good a piece is, not what it is made of, so each way to cut it in two counts. Of equally
    good pairs, those with the longer first half go first, then those with the longer second half.
    """
    may = allowed.tolist()
    # Vocabularies have a quarter of a million pieces, so this is one expression, and most cuts end at the first look.
    pairs = [
        (piece[:cut], piece[cut:])
        for piece, number in ids.items()
        if may[number]
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    made = np.fromiter((ids[first + second] for first, second in pairs), np.int64, len(pairs))
    first_lengths = np.fromiter((len(first) for first, _ in pairs), np.int32, len(pairs))
    second_lengths = np.fromiter((len(second) for _, second in pairs), np.int32, len(pairs))
    return [pairs[i] for i in np.lexsort((-second_lengths, -first_lengths, -scores[made])).tolist()]
