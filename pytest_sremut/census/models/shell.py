"""Shell text to programs with arguments: lists, pipes, `sh -c`, here-documents, common wrappers.

Nothing is executed and nothing is an error: text that a shell refuses is split at white space.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Line", "parse"]

_SEPARATORS: Final = frozenset({";", "&&", "||", "|", "&", "\n", "|&", ";;", "(", ")"})
_PIPES: Final = frozenset({"|", "|&"})
_SHELLS: Final = frozenset({"sh", "bash", "ash", "zsh"})
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_]\w*=")
_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)\n\s*\2\s*(?=\n|$)", re.DOTALL)
_KEYWORDS: Final = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"}
)
_MAX_DEPTH: Final = 4
_MAX_WRAPPERS: Final = 8
_MAX_LINES: Final = 400


@dataclass(slots=True, eq=False)
class Line:
    """One program. `stdin` is the text of a here-document, `pipe` the program that feeds it."""

    words: list[str]
    stdin: str | None = None
    pipe: Line | None = field(default=None, repr=False)

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]


def parse(command: list[str] | str, depth: int = 0) -> list[Line]:
    """The programs of a command, in order. Words of a list are taken as they are."""
    if isinstance(command, list):
        return _unwrap(Line(list(command)), depth)
    result: list[Line] = []
    for line in _lines(command)[:_MAX_LINES]:
        result += _unwrap(line, depth)
    return result


def _lines(command: str) -> list[Line]:
    """The programs of a shell text, each with the program that feeds it."""
    text, documents = _take_documents(command)
    lines: list[Line] = []
    current: list[str] = []
    previous: Line | None = None
    for token in [*_tokens(text), ";"]:
        if token not in _SEPARATORS:
            current.append(token)
            continue
        line = _line(current, documents, previous)
        current = []
        if line is not None:
            lines.append(line)
        if token not in _PIPES:
            previous = None
        elif line is not None:
            previous = line
    return lines


def _line(words: list[str], documents: dict[str, str], pipe: Line | None) -> Line | None:
    """One program; None when only assignments, keywords or redirections are left."""
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _KEYWORDS):
        words = words[1:]
    line = Line(_without_redirections(words), pipe=pipe)
    for word in list(line.words):
        if word in documents:
            line.words.remove(word)
            line.stdin = documents[word]
    return line if line.words else None


def _take_documents(text: str) -> tuple[str, dict[str, str]]:
    documents: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        key = f"__document{len(documents)}__"
        documents[key] = match[4]
        return f" {key} {match[3]}"

    return _HEREDOC.sub(replace, text), documents


def _tokens(text: str) -> list[str]:
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"\$?\(\([^()]*\)\)", "0", text)
    text = re.sub(r"\d?>&\d|&>\s*/dev/null|\d?>\s*/dev/null", " ", text)
    tokens: list[str] = []
    for row in _rows(text):
        lexer = shlex.shlex(row, posix=True, punctuation_chars=";&|()")
        lexer.whitespace_split = True
        lexer.commenters = ""
        try:
            tokens += list(lexer)
        except ValueError:
            tokens += row.split()
        tokens.append("\n")
    return tokens


def _rows(text: str) -> list[str]:
    """The lines; a line break inside quotes does not end one."""
    rows: list[str] = []
    start = 0
    quote = ""
    index = 0
    while index < len(text):
        letter = text[index]
        if letter == "\\" and quote != "'":
            index += 2
            continue
        if quote:
            if letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        elif letter == "\n":
            rows.append(text[start:index])
            start = index + 1
        index += 1
    rows.append(text[start:])
    return [row for row in rows if row.strip() and not row.lstrip().startswith("#")]


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        if re.fullmatch(r"\d?(>|>>|<|>\||&>|>&)", word):
            skip = True
            continue
        if re.match(r"\d?(>|&>|<)[^(]", word) and not word.startswith("<⟦"):
            continue
        kept.append(word)
    return kept


def _unwrap(line: Line, depth: int) -> list[Line]:
    """`sudo x`, `timeout 5 x`, `sh -c '…'`, `env A=b x` run x."""
    words = line.words
    for _ in range(_MAX_WRAPPERS):
        if not words:
            return []
        program = words[0].rpartition("/")[2]
        if program in _SHELLS:
            inner = _script(line, words)
            if inner is not None and depth < _MAX_DEPTH:
                return parse(inner, depth + 1)
            break
        wrapped = _WRAPPERS.get(program)
        if wrapped is None:
            break
        words = wrapped(words)
    if not words:
        return []
    line.words = words
    return [line]


def _script(line: Line, words: list[str]) -> str | None:
    """The text that a shell runs: after `-c`, or its here-document."""
    flags = [word for word in words[1:] if word.startswith("-") and "c" in word]
    if flags:
        position = words.index(flags[0]) + 1
        if position < len(words):
            return words[position]
    return line.stdin


def _without_flags(words: list[str]) -> list[str]:
    """What follows the wrapper and its flags."""
    words = words[1:]
    while words and words[0].startswith("-"):
        words = words[1:]
    return words


def _without_one_more(words: list[str]) -> list[str]:
    """The same for `timeout 5 x` and `chroot DIR x`."""
    return _without_flags(words)[1:]


def _without_assignments(words: list[str]) -> list[str]:
    words = words[1:]
    while words and ("=" in words[0] or words[0].startswith("-")):
        words = words[1:]
    return words


def _in_namespaces(words: list[str]) -> list[str]:
    """What `nsenter -t 1 -m -- x` runs."""
    if "--" in words:
        return words[words.index("--") + 1 :]
    words = [word for word in words[1:] if not word.startswith("-")]
    return [word for word in words if not word.isdigit()]


_WRAPPERS: Final[dict[str, Callable[[list[str]], list[str]]]] = {
    "sudo": _without_flags,
    "nohup": _without_flags,
    "exec": _without_flags,
    "command": _without_flags,
    "nice": _without_flags,
    "stdbuf": _without_flags,
    "busybox": _without_flags,
    "chroot": _without_one_more,
    "timeout": _without_one_more,
    "env": _without_assignments,
    "nsenter": _in_namespaces,
}
