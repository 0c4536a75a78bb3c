"""Whether a study's registration holds: one result a check, none hidden behind another.

Rules: every frozen file's raw bytes are the ones in the manifest; the manifest's bytes are the
ones that were stamped; the tokens verify against the pinned roots; predictions < tree < first
mutation by the tokens' own times, accuracy included; revisions chain. Graders and plugins are
frozen files like others; a registration made before they were says so. The tree is optional: where
there is one, its commit is an ancestor of what is checked out and the frozen files are unchanged
since; product files that changed since are named, by git's word and by their bytes. Outside a git
checkout that part reads "not checked", which is no failure and no success.

Reads files and asks git; no network, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_sremut.attestation.errors import (
    CheckoutError,
    CommitNotAtHandError,
    Fault,
    FrozenFileError,
    ManifestError,
    NotRegisteredError,
    TreeChangedError,
    VerificationError,
)
from pytest_sremut.attestation.registration.checkout import open_checkout
from pytest_sremut.attestation.registration.code import (
    ROLE,
    code_roles,
    digest_of_role,
    frozen_code,
    in_project,
    is_outside,
)
from pytest_sremut.attestation.registration.manifest import (
    DIRECTORY,
    MANIFEST,
    PREDICTIONS,
    TREE,
    Manifest,
    TreeStatement,
    parse_manifest,
    parse_tree,
    read_file,
    revision_directory,
    revisions,
)
from pytest_sremut.attestation.registration.order import Step, require_order
from pytest_sremut.attestation.registration.pins import trust_of
from pytest_sremut.attestation.registration.result import CheckResult, RegistrationReport
from pytest_sremut.attestation.registration.stamped import openssl_command, verify_stamp
from pytest_sremut.attestation.rfc3161.trust import TrustStore
from pytest_sremut.attestation.rfc3161.verify import VerifiedToken
from pytest_sremut.errors import InputError, SremutError
from pytest_sremut.ground.durable.clock import rfc3339
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.study.model import Study

__all__ = ["CheckResult", "RegistrationReport", "check", "recheck"]


def check(
    root: Path,
    study: Study,
    *,
    first_mutation: datetime | None = None,
    trust: TrustStore | None = None,
    revision: int | None = None,
) -> RegistrationReport:
    """Check a study's registration.

    Args:
        root: The project's root.
        study: As loaded from it.
        first_mutation: When anything was first done to a cluster under it, if anything was.
        trust: The pins; the project's own where None.
        revision: Which one; the newest where None.

    Returns:
        The report. Never raises for what the files hold.
    """
    return _Checker(root, study).run(first_mutation, trust, revision)


def recheck(root: Path, report: RegistrationReport) -> tuple[CheckResult, ...]:
    """Compare the frozen files with the registration again: quick, for before each run.

    Returns:
        One result for each file that is no longer what was registered; empty where all are.
    """
    if report.manifest is None:
        return (CheckResult(name="manifest", ok=False, detail="was never read"),)
    checker = _Checker(root, None)
    checker.frozen_files(report.manifest)
    return tuple(result for result in checker.results if result.ok is False)


class _Checker:
    """Collects results; a check that fails never hides the ones that do not depend on it."""

    def __init__(self, root: Path, study: Study | None) -> None:
        self.root = root
        self.study = study
        self.results: list[CheckResult] = []
        self.has_foreign_code = False

    def run(
        self, first_mutation: datetime | None, trust: TrustStore | None, revision: int | None
    ) -> RegistrationReport:
        assert self.study is not None
        study = self.study
        number: int | None = None
        manifest = digest = token = statement = tree_token = changed = None
        openssl: list[str] = []
        with self._checking("registration"):
            found = revisions(self.root, study.id)
            number = self._choose(found, revision)
        if number is None:
            return self._report(study, None)
        directory = revision_directory(self.root, study.id, number)
        shown = directory.relative_to(self.root)
        self._passed("registration", f"{shown}, of {len(found)} revisions")
        if trust is None:
            with self._checking("trust"):
                trust = trust_of(self.root)
                self._passed("trust", f"{len(trust.roots)} pinned roots")
        data: bytes | None = None
        with self._checking("manifest"):
            data = read_file(directory / MANIFEST, root=self.root)
            digest = sha256(data)
            manifest = self._manifest(data, number)
        with self._checking("revisions"):
            self._revision_chain(number, manifest)
        if manifest is not None:
            self._roles(manifest)
            self._code(manifest)
            self.frozen_files(manifest)
        if data is not None and trust is not None:
            token = self._token(directory, PREDICTIONS, data, trust)
            if token is not None:
                openssl.append(openssl_command(shown, PREDICTIONS, MANIFEST, token))
        if any(directory.glob(f"{TREE}.*")):
            with self._checking("tree"):
                tree_bytes = read_file(directory / f"{TREE}.json", root=self.root)
                statement = self._statement(tree_bytes, number, digest)
                if trust is not None:
                    tree_token = self._token(directory, TREE, tree_bytes, trust)
                if tree_token is not None:
                    openssl.append(openssl_command(shown, TREE, f"{TREE}.json", tree_token))
            if statement is not None and manifest is not None:
                changed = self._commit(statement, manifest, shown)
        else:
            self._not_checked("tree", "this revision has no tree token (it is optional)")
        self._order(token, tree_token, first_mutation)
        return self._report(
            study,
            number,
            digest=digest,
            manifest=manifest,
            token=token,
            tree=statement,
            tree_token=tree_token,
            product_changed=changed,
            openssl=tuple(openssl),
        )

    # -- the manifest and what it covers --------------------------------------------------------

    def _choose(self, found: list[int], revision: int | None) -> int:
        assert self.study is not None
        if not found:
            raise NotRegisteredError(f"{DIRECTORY}/{self.study.id}: no registration")
        if revision is not None and revision not in found:
            raise NotRegisteredError(f"{DIRECTORY}/{self.study.id}: no revision {revision}")
        return found[-1] if revision is None else revision

    def _manifest(self, data: bytes, number: int) -> Manifest:
        assert self.study is not None
        manifest = parse_manifest(data)
        if (manifest.study, manifest.revision) != (self.study.id, number):
            raise ManifestError(
                f"{MANIFEST} is of {manifest.study} revision {manifest.revision}, "
                f"expected {self.study.id} revision {number}"
            )
        self._passed("manifest", f"sha256:{sha256(data)}")
        return manifest

    def _revision_chain(self, number: int, manifest: Manifest | None) -> None:
        """Every revision names the digest of the one before it, back to the first."""
        assert self.study is not None
        current = manifest
        for earlier in range(number - 1, 0, -1):
            if current is None:
                return  # its own failure is told already
            directory = revision_directory(self.root, self.study.id, earlier)
            data = read_file(directory / MANIFEST, root=self.root)
            if current.previous != sha256(data):
                raise ManifestError(
                    f"revision {earlier + 1} does not follow what lies in "
                    f"{directory.relative_to(self.root)}: that manifest was exchanged"
                )
            current = parse_manifest(data)
        if current is not None and current.previous is not None:
            raise ManifestError("the first revision names one before it: revisions were taken out")
        self._passed("revisions", f"{number} in an unbroken chain")

    def _roles(self, manifest: Manifest) -> None:
        """What the study uses now is what was registered, no file more and none less."""
        assert self.study is not None
        registered = {
            role: file.path for role, file in manifest.files.items() if not role.startswith(ROLE)
        }
        for role in sorted({*registered, *self.study.frozen}):
            used, covered = self.study.frozen.get(role), registered.get(role)
            with self._checking(f"frozen {role}"):
                if used != covered:
                    raise FrozenFileError(
                        f"the study uses {used or 'none'}, registered is {covered or 'none'}"
                    )

    def _code(self, manifest: Manifest) -> None:
        """The code that decides in the study now is what was registered, as far as any was."""
        assert self.study is not None
        used, covered = frozen_code(self.root, self.study), code_roles(manifest)
        self.has_foreign_code = bool(used)
        if not manifest.has_code:
            told = ", ".join(role.removeprefix(ROLE) for role in used) or "there are none now"
            self._not_checked(
                "frozen code", f"graders not covered: registered before they were ({told})"
            )
            return
        for role in sorted({*used, *covered}):
            here, there = used.get(role), covered.get(role)
            if here is None and there is not None and is_outside(there.path):
                continue  # whether it can be found is told with its digest
            with self._checking(f"frozen {role}"):
                if here is None or there is None or here.path != there.path:
                    raise FrozenFileError(
                        f"the study uses {here.path if here else 'none'}, registered is "
                        f"{there.path if there else 'none'}"
                    )
        if not covered and not used:
            self._passed("frozen code", "no grader and no plugin that is not ours")

    def frozen_files(self, manifest: Manifest) -> None:
        """Compare every registered file's bytes with its digest."""
        for role, file in manifest.files.items():
            with self._checking(f"frozen {role}"):
                digest = digest_of_role(self.root, role, file)
                if digest != file.sha256:
                    raise FrozenFileError(
                        f"{file.path}: its SHA-256 is {digest}, registered is {file.sha256}"
                    )
                self._passed(f"frozen {role}", f"{file.path} sha256:{digest}")

    # -- tokens ---------------------------------------------------------------------------------

    def _token(
        self, directory: Path, stem: str, data: bytes, trust: TrustStore
    ) -> VerifiedToken | None:
        """Verify a stamp; each of the token's own checks becomes a line."""
        try:
            token = verify_stamp(directory, stem, data, trust, root=self.root)
        except VerificationError as error:
            self._token_checks(stem, error.passed)
            self._failed(f"{stem} token", error)
            return None
        self._token_checks(stem, token.checks)
        self._passed(
            f"{stem} token",
            f"{rfc3339(token.gen_time)} by {token.root}, {token.independence}, "
            f"serial {token.serial:x}",
        )
        return token

    def _token_checks(self, stem: str, checks: tuple[tuple[str, str], ...]) -> None:
        for name, detail in checks:
            if detail.startswith("not checked"):
                self._not_checked(f"{stem} {name}", detail.removeprefix("not checked: "))
            else:
                self._passed(f"{stem} {name}", detail)

    def _order(
        self,
        token: VerifiedToken | None,
        tree_token: VerifiedToken | None,
        first_mutation: datetime | None,
    ) -> None:
        """Predictions < tree < first mutation, as far as there are such."""
        if token is None:
            return  # its own failure is told already
        steps = [Step.of("predictions", token)]
        if tree_token is not None:
            steps.append(Step.of("tree", tree_token))
        if first_mutation is not None:
            steps.append(Step.at("first mutation", first_mutation))
        if len(steps) == 1:
            self._not_checked("order", "nothing to compare the predictions' time with")
            return
        with self._checking("order"):
            require_order(steps)
            self._passed("order", " < ".join(step.name for step in steps))

    # -- the tree -------------------------------------------------------------------------------

    def _statement(self, data: bytes, number: int, digest: str | None) -> TreeStatement:
        assert self.study is not None
        statement = parse_tree(data)
        if (statement.study, statement.revision) != (self.study.id, number):
            raise ManifestError(f"{TREE}.json is of another study or revision")
        if statement.manifest != digest:
            raise ManifestError(f"{TREE}.json is of another manifest")
        self._passed("tree", f"commit {statement.commit}")
        return statement

    def _commit(
        self, statement: TreeStatement, manifest: Manifest, directory: Path
    ) -> tuple[str, ...] | None:
        """Compare the stamped commit with the checkout; the product files that changed since."""
        try:
            checkout = open_checkout(self.root)
            tracked = checkout.tracks(str(directory / MANIFEST))
        except CheckoutError as error:
            self._not_checked("tree commit", str(error))
            return None
        if not tracked:
            self._not_checked("tree commit", "git does not track the registration")
            return None
        commit, frozen = statement.commit, in_project(manifest)
        changed: tuple[str, ...] | None = None
        with self._checking("tree commit"):
            if not checkout.has_commit(commit):
                raise CommitNotAtHandError(f"commit {commit} is not in this clone")
            if not checkout.is_ancestor(commit):
                raise TreeChangedError(f"commit {commit} is no ancestor of what is checked out")
            content = checkout.content_digest(commit, [*statement.paths, *frozen])
            if content != statement.content:
                raise TreeChangedError(f"commit {commit} holds other contents than were stamped")
            edited = checkout.changed_since(commit, frozen)
            if edited:
                raise TreeChangedError(f"frozen files changed since it: {', '.join(edited)}")
            changed = checkout.changed_since(commit, statement.paths)
            # By their bytes, too: git can be told not to look, and filters stand before it.
            altered = set(checkout.altered(commit, statement.paths))
            changed = tuple(sorted({*changed, *altered}))
            self._passed("tree commit", f"{commit} is an ancestor, frozen files unchanged since")
            self._passed(
                "product",
                "unchanged since the stamped commit"
                if not changed
                else f"{len(changed)} files changed since: {', '.join(changed)}",
            )
        return changed

    # -- results --------------------------------------------------------------------------------

    @contextmanager
    def _checking(self, name: str) -> Iterator[None]:
        """Turn what the block raises into a failed check of that name."""
        try:
            yield
        except (VerificationError, InputError) as error:
            self._failed(name, error)

    def _passed(self, name: str, detail: str) -> None:
        self.results.append(CheckResult(name=name, ok=True, detail=detail))

    def _not_checked(self, name: str, why: str) -> None:
        self.results.append(CheckResult(name=name, ok=None, detail=f"not checked: {why}"))

    def _failed(self, name: str, error: SremutError) -> None:
        self.results.append(
            CheckResult(
                name=name,
                ok=False,
                detail=str(error),
                error=type(error).__name__,
                fault=error.fault if isinstance(error, VerificationError) else Fault.MISUSE,
                diagnostics=error.diagnostics(),
            )
        )

    def _report(self, study: Study, number: int | None, **found: Any) -> RegistrationReport:
        return RegistrationReport(
            study=study.id,
            revision=number,
            results=tuple(self.results),
            has_foreign_code=self.has_foreign_code,
            **{"digest": None, **found},
        )
