"""Programs for pods: what BusyBox 1.37 prints and answers, as recorded in a real cluster.

Each is one self-contained file that a bare interpreter runs (``python -I -S -E``), because every
millisecond of start-up is part of what a probe measures.
"""
