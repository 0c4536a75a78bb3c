"""Fetch one directory of a source archive, and take it only if its files are the ones expected.

    python fetch.py URL DIRECTORY SHA256 TARGET

SHA256 is over one line `SHA256  PATH` per file, sorted by path, so it is of the files and not of
how an archive was packed or compressed. Standard library only: it runs inside an image's build.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import urllib.request
from pathlib import Path, PurePosixPath

_TIMEOUT = 120.0


def files_of(archive: bytes, directory: str) -> dict[str, tuple[bytes, int]]:
    """Path below the archive's top (content, mode) of each regular file in `directory`.

    Raises:
        SystemExit: A path leaves the archive.
    """
    found: dict[str, tuple[bytes, int]] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts[1:]
            if ".." in parts:
                raise SystemExit(f"fetch: {member.name}: leaves the archive")
            inside = directory == "." or parts[:1] == (directory,)
            if member.isfile() and parts and inside:
                content = tar.extractfile(member)
                assert content is not None
                found["/".join(parts)] = (content.read(), member.mode)
    return found


def digest_of(files: dict[str, tuple[bytes, int]], prefix: str = "") -> str:
    """SHA-256 over the sorted lines; `prefix` stands before each path."""
    lines = (
        f"{hashlib.sha256(files[path][0]).hexdigest()}  {prefix}{path}\n" for path in sorted(files)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def main(argv: list[str]) -> int:
    url, directory, expected, target = argv
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
        files = files_of(answer.read(), directory)
    found = digest_of(files, "./" if directory == "." else "")
    if found != expected:
        raise SystemExit(f"fetch: {url}: files have SHA-256 {found}; allowed: {expected}")
    for path, (content, mode) in files.items():
        inside = path if directory == "." else path.partition("/")[2]
        place = Path(target, inside)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
