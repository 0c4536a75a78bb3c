"""Shell text to programs with arguments: lists, pipes, `sh -c`, here-documents, common wrappers.

Never executed, and never an error: text that a shell would refuse is split at white space.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Line", "parse"]

_SEPARATORS: Final = frozenset({";", "&&", "||", "|", "&", "\n", "|&", ";;", "(", ")"})
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_]\w*=")
_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)\n\s*\2\s*(?=\n|$)", re.DOTALL)
_KEYWORDS: Final = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"}
)
_MAX_DEPTH: Final = 4
_MAX_LINES: Final = 400


@dataclass(slots=True, eq=False)
class Line:
    """One program. `stdin` is a here-document's or an echoed text, `pipe` what feeds it."""

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
    text, documents = _take_documents(command)
    lines: list[Line] = []
    current: list[str] = []
    previous: Line | None = None

    def finish(separator: str) -> None:
        nonlocal current, previous
        while current and (_ASSIGNMENT.match(current[0]) or current[0] in _KEYWORDS):
            current = current[1:]
        if current:
            line = Line(_without_redirections(current), pipe=previous)
            if line.words:
                for word in list(line.words):
                    if word in documents:
                        line.words.remove(word)
                        line.stdin = documents[word]
                if line.words:
                    lines.append(line)
                    previous = line if separator in {"|", "|&"} else None
        current = []
        if separator not in {"|", "|&"}:
            previous = None

    for token in _tokens(text):
        if token in _SEPARATORS:
            finish(token)
        else:
            current.append(token)
    finish(";")
    result: list[Line] = []
    for line in lines[:_MAX_LINES]:
        result += _unwrap(line, depth)
    return result


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
    """Lines, except inside quotes."""
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
    """`sudo x`, `timeout 5 x`, `sh -c '…'`, `env A=b x` are about x."""
    words = line.words
    for _ in range(8):
        if not words:
            return []
        program = words[0].rpartition("/")[2]
        if program in {"sudo", "nohup", "exec", "command", "nice", "stdbuf", "busybox", "chroot"}:
            words = words[1:]
            skip = 1 if program == "chroot" else 0
            while words and words[0].startswith("-"):
                words = words[1:]
            words = words[skip:]
        elif program == "env":
            words = words[1:]
            while words and ("=" in words[0] or words[0].startswith("-")):
                words = words[1:]
        elif program == "timeout":
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
            words = words[1:]
        elif program in {"nsenter"}:
            if "--" in words:
                words = words[words.index("--") + 1 :]
            else:
                words = [word for word in words[1:] if not word.startswith("-")]
                words = [word for word in words if not word.isdigit()]
        elif program in {"sh", "bash", "ash", "zsh", "/bin/sh"}:
            flags = [word for word in words[1:] if word.startswith("-") and "c" in word]
            if flags and depth < _MAX_DEPTH:
                position = words.index(flags[0]) + 1
                if position < len(words):
                    return parse(words[position], depth + 1)
            if line.stdin is not None and depth < _MAX_DEPTH:
                return parse(line.stdin, depth + 1)
            break
        else:
            break
    if not words:
        return []
    line.words = words
    return [line]
