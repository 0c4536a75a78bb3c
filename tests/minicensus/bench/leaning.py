"""Leans on a module that is not there."""

from bench.not_written_yet import inject_it


def inject():
    inject_it()
