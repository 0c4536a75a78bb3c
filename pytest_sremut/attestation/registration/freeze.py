"""Make a registration: digests, query, reply, verified before anything is written.

Rules: all or nothing, whatever fails leaves the project as it was; nothing is overwritten,
registering again makes a new revision that keeps the old one; a reply that would not verify later
is refused now. A self-issued authority's root is pinned together with its token, as self-issued.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_sremut import __version__
from pytest_sremut.attestation.errors import (
    AlreadyRegisteredError,
    FrozenFileError,
    MisuseError,
    NotRegisteredError,
    UncommittedChangesError,
)
from pytest_sremut.attestation.registration.checkout import Checkout, open_checkout
from pytest_sremut.attestation.registration.code import (
    digest_of_role,
    frozen_code,
    in_project,
    lacking_graders,
)
from pytest_sremut.attestation.registration.manifest import (
    DIRECTORY,
    MANIFEST,
    PREDICTIONS,
    TREE,
    FrozenFile,
    Manifest,
    TreeStatement,
    digest_of,
    parse_manifest,
    read_file,
    revision_directory,
    revisions,
)
from pytest_sremut.attestation.registration.order import Step, require_order
from pytest_sremut.attestation.registration.pins import add_pin, trust_of
from pytest_sremut.attestation.registration.stamped import make_stamp, root_file, verify_stamp
from pytest_sremut.attestation.rfc3161.authority_port import Authority
from pytest_sremut.attestation.rfc3161.trust import TRUST_FILE, TrustStore
from pytest_sremut.attestation.rfc3161.verify import VerifiedToken
from pytest_sremut.ground.durable.atomic import (
    TEMPORARY,
    fsync_directory,
    make_directory,
    write_new,
)
from pytest_sremut.ground.durable.clock import rfc3339
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.study.model import Study

__all__ = ["PRODUCT_PATHS", "Frozen", "freeze", "freeze_tree"]

PRODUCT_PATHS = ("pytest_sremut", "pyproject.toml", "conftest.py")
"""What is executed, as far as it lies in the project; the frozen files come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What was made."""

    study: str
    revision: int
    directory: Path
    files: tuple[str, ...]  # names in it, of what was just written
    digest: str  # SHA-256 of the stamped document
    token: VerifiedToken


def _utc_now() -> datetime:
    return datetime.now(UTC)


def freeze(
    root: Path,
    study: Study,
    authority: Authority,
    *,
    hash_algorithm: str = "sha256",
    policy: str | None = None,
    now: Callable[[], datetime] = _utc_now,
) -> Frozen:
    """Register a study: its next revision, stamped by `authority`.

    Raises:
        MisuseError: The study predicts nothing, or a grader's module cannot be found.
        FrozenFileError: A file is missing, or changed while it was being stamped.
        VerificationError: No reply, or one that does not verify.
        InputError: The trust file is not what it must be.
        EvidenceError: The files cannot be written.
    """
    if "predictions" not in study.frozen:
        raise MisuseError(f"{study.file}: the study names no predictions: nothing to register")
    files = {
        role: FrozenFile(path=path, sha256=digest_of(root, path))
        for role, path in study.frozen.items()
    }
    code = frozen_code(root, study)
    if lacking := lacking_graders(root, study):
        raise MisuseError(
            f"{study.file}: the graders' modules {', '.join(lacking)} cannot be found: name the "
            "directory that they lie in with PYTHONPATH"
        )
    revision = len(revisions(root, study.id)) + 1
    manifest = Manifest(
        study=study.id,
        revision=revision,
        created=rfc3339(now()),
        product=__version__,
        files={**files, **code},
        previous=_manifest_digest(root, study.id, revision - 1) if revision > 1 else None,
        has_code=True,
    )
    data = manifest.dump()
    token, stamp = make_stamp(
        data, PREDICTIONS, authority, trust_of(root), hash_algorithm=hash_algorithm, policy=policy
    )
    for file in files.values():
        if digest_of(root, file.path) != file.sha256:
            raise FrozenFileError(f"{file.path}: changed while it was being stamped")
    if frozen_code(root, study) != code:
        raise FrozenFileError("a grader or a plugin changed while it was being stamped")
    directory = revision_directory(root, study.id, revision)
    written = {MANIFEST: data, **stamp}
    with _new_directory(directory, written, root):
        _pin(root, authority, directory, PREDICTIONS)
    return Frozen(
        study=study.id,
        revision=revision,
        directory=directory,
        files=tuple(written),
        digest=sha256(data),
        token=token,
    )


def freeze_tree(
    root: Path,
    study: Study,
    authority: Authority,
    *,
    paths: Sequence[str] = PRODUCT_PATHS,
    hash_algorithm: str = "sha256",
    policy: str | None = None,
    now: Callable[[], datetime] = _utc_now,
) -> Frozen:
    """Stamp the commit that is checked out, as the tree of the study's newest revision.

    Raises:
        NotRegisteredError: The study has no registration yet.
        AlreadyRegisteredError: The revision has a tree.
        CheckoutError: There is no git checkout.
        UncommittedChangesError: Frozen, registration or product files are not as in the commit.
        TokenOrderError: The reply is not later than the predictions' token.
        VerificationError: No reply, or one that does not verify.
    """
    found = revisions(root, study.id)
    if not found:
        raise NotRegisteredError(f"{study.id}: not registered yet: the predictions come first")
    revision = found[-1]
    directory = revision_directory(root, study.id, revision)
    statement_file = f"{TREE}.json"
    if any(directory.glob(f"{TREE}.*")):
        raise AlreadyRegisteredError(
            f"{directory.relative_to(root)}: this revision has a tree; register a new revision "
            "for another one"
        )
    trust = trust_of(root)
    manifest_bytes = read_file(directory / MANIFEST, root=root)
    manifest = parse_manifest(manifest_bytes)
    predictions = verify_stamp(directory, PREDICTIONS, manifest_bytes, trust, root=root)
    checkout = open_checkout(root)
    frozen = in_project(manifest)
    commit = _clean_commit(
        checkout, [*paths, *frozen, str(directory.relative_to(root)), str(TRUST_FILE)]
    )
    for role, file in manifest.files.items():
        if digest_of_role(root, role, file) != file.sha256:
            raise FrozenFileError(f"{file.path}: not the bytes that were registered")
    data = TreeStatement(
        study=study.id,
        revision=revision,
        manifest=sha256(manifest_bytes),
        commit=commit,
        paths=tuple(paths),
        content=checkout.content_digest(commit, [*paths, *frozen]),
        created=rfc3339(now()),
    ).dump()
    token, stamp = make_stamp(
        data, TREE, authority, trust, hash_algorithm=hash_algorithm, policy=policy
    )
    require_order([Step.of(PREDICTIONS, predictions), Step.of(TREE, token)])
    written = {**stamp, statement_file: data}  # the statement last: it makes the rest count
    with _new_files(directory, written):
        _pin(root, authority, directory, TREE)
    return Frozen(
        study=study.id,
        revision=revision,
        directory=directory,
        files=tuple(written),
        digest=sha256(data),
        token=token,
    )


def _manifest_digest(root: Path, study: str, revision: int) -> str:
    return sha256(read_file(revision_directory(root, study, revision) / MANIFEST, root=root))


def _clean_commit(checkout: Checkout, paths: Sequence[str]) -> str:
    commit = checkout.head()
    changed = checkout.changed_since(commit, paths)
    changed += tuple(one for one in checkout.altered(commit, paths) if one not in changed)
    if changed:
        raise UncommittedChangesError(
            f"{len(changed)} frozen or product files are not as in commit {commit[:12]}",
            details=changed,
        )
    return commit


def _pin(root: Path, authority: Authority, directory: Path, stem: str) -> None:
    """Pin the root that comes with a self-issued authority, unless it is pinned already."""
    pin = authority.root
    trust: TrustStore = trust_of(root)
    if pin is None or any(one.sha256 == pin.sha256 for one in trust.roots):
        return
    name = directory.relative_to(root / DIRECTORY)
    add_pin(
        root,
        pin,
        file=str(name / root_file(stem)),
        comment=f"{name}, {stem}: made by `--tsa self`, key discarded",
    )


@contextmanager
def _new_directory(directory: Path, files: Mapping[str, bytes], root: Path) -> Iterator[None]:
    """Create `directory` with all its files in one step; gone again if the block fails."""
    if directory.exists():
        raise AlreadyRegisteredError(f"{directory.relative_to(root)}: exists already")
    missing = [one for one in (directory.parent, directory.parent.parent) if not one.exists()]
    stage = directory.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    made: Path | None = None
    try:
        make_directory(stage)
        made = stage
        for name, data in files.items():
            write_new(stage / name, data)
        try:
            stage.rename(directory)  # fails over a directory that holds anything
        except OSError as error:
            raise AlreadyRegisteredError(
                f"{directory.relative_to(root)}: cannot be created: {error.strerror}"
            ) from error
        made = directory
        fsync_directory(directory.parent)
        yield
    except BaseException:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        for parent in missing:
            with suppress(OSError):  # somebody else put something there meanwhile
                parent.rmdir()
        raise


@contextmanager
def _new_files(directory: Path, files: Mapping[str, bytes]) -> Iterator[None]:
    """Create all the files in `directory`; gone again if one of them or the block fails."""
    written: list[Path] = []
    try:
        for name, data in files.items():
            write_new(directory / name, data)
            written.append(directory / name)
        yield
    except BaseException:
        for path in reversed(written):
            with suppress(OSError):
                path.unlink()
        raise
