"""Stand-ins that tests share: toy grammars, a link between two fake devices, a scheduler with its loop, workloads."""
