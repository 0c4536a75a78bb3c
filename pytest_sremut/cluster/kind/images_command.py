"""`sremut cluster images`: what a cluster that exists needs of images, told or made.

Without an option that makes something it only reads: names, digests of the build contexts, and, of
a context that is named, which nodes lack them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pytest_sremut.cluster.kind.engines import ENGINES, Engine
from pytest_sremut.cluster.kind.images import IMAGES, ImageSpec, context_of
from pytest_sremut.errors import UsageError

__all__ = ["add_arguments"]

_ROLES: Mapping[str, str] = {"sremut/demo:1": "demo", "sremut/load:1": "load"}


def add_arguments(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to `sremut cluster`."""
    parser = verbs.add_parser("images", help="the images that a cluster needs: list, build, push")
    parser.add_argument("--context", default="", help="say which of its nodes lack them")
    parser.add_argument("--write", metavar="DIR", help="write the complete build contexts there")
    parser.add_argument("--build", action="store_true", help="build them on this machine")
    parser.add_argument("--engine", choices=ENGINES, help="default: the first that is on PATH")
    parser.add_argument("--push", metavar="REF", help="push them below REF (registry/path)")
    parser.add_argument("--save", metavar="TAR", help="write them into an archive")
    parser.set_defaults(run=_images)


def _images(arguments: argparse.Namespace) -> int:
    if not arguments.build and (arguments.push or arguments.save):
        raise UsageError("cluster images: --push and --save: allowed only with --build")
    if arguments.engine and not arguments.build:
        raise UsageError("cluster images: --engine: allowed only with --build")
    reference = (arguments.push or "").rstrip("/")
    if arguments.push is not None and not reference:
        raise UsageError("cluster images: --push: found nothing; allowed: registry/path")
    _list(Path(arguments.write) if arguments.write else None)
    if arguments.build:
        _make(
            _engine(arguments.engine, os.environ),
            reference=reference,
            archive=Path(arguments.save) if arguments.save else None,
        )
    return _nodes(arguments.context) if arguments.context else 0


def _list(folder: Path | None) -> None:
    for spec in IMAGES:
        with context_of(spec) as (context, digest):
            print(f"{spec.name}: {_ROLES.get(spec.name, 'probe')}, context sha256:{digest}")
            if folder is None:
                continue
            target = folder / _short(spec)
            try:
                # Never into a directory that is there: its files would become part of the image.
                shutil.copytree(context, target)
            except FileExistsError:
                raise UsageError(f"{target} exists; name a directory without it") from None
            except OSError as error:
                raise UsageError(f"{target}: cannot be written: {error.strerror}") from None
            print(f"  written to {target}")


def _engine(named: str | None, environ: Mapping[str, str]) -> Engine:
    path = environ.get("PATH", "")
    name = named or next((one for one in ENGINES if shutil.which(one, path=path)), None)
    if name is None:
        raise UsageError(f"cluster images: no engine on PATH; allowed: {', '.join(ENGINES)}")
    return Engine(name=name, environ=environ)


def _make(engine: Engine, *, reference: str, archive: Path | None) -> None:
    if archive is not None and archive.exists():
        raise UsageError(f"{archive} exists; an archive is never overwritten")
    pushed: list[str] = []
    for spec in IMAGES:
        with context_of(spec) as (context, digest):
            print(f"building {spec.name} with {engine.name}", file=sys.stderr)
            engine.build(context, tag=spec.local, digest=digest)
        if reference:
            target = f"{reference}/{_short(spec)}:{spec.name.rpartition(':')[2]}"
            found = engine.push(spec.local, target)
            role = _ROLES.get(spec.name, "probe")
            pushed.append(f"      {role}: {target.rpartition(':')[0]}@{found}")
    if archive is not None:
        _save(engine, archive)
    if pushed:
        print("for a profile of the study:\n    images:\n" + "\n".join(pushed))


def _save(engine: Engine, archive: Path) -> None:
    if engine.name != "buildah":
        engine.save([spec.local for spec in IMAGES], archive)
        print(f"written to {archive}; on each node: ctr --namespace k8s.io images import FILE")
        return
    for spec in IMAGES:
        one = archive.with_name(f"{archive.stem}-{_short(spec)}{archive.suffix}")
        if one.exists():
            raise UsageError(f"{one} exists; an archive is never overwritten")
        engine.save([spec.local], one)
        print(f"written to {one}; on each node: ctr --namespace k8s.io images import FILE")


def _nodes(context: str) -> int:
    """Which nodes lack which image; 1 if one does, 3 if that cannot be told."""
    from pytest_sremut.cluster.context import ContextBackend
    from pytest_sremut.cluster.node_images import places_of

    # It only reads, so no more has to be allowed than what was named.
    backend = ContextBackend.open(context=context, allowed={context})
    try:
        places = places_of(backend.api, [spec.name for spec in IMAGES])
    finally:
        backend.close()
    for place in places:
        for told, nodes in (("on", place.has), ("not on", place.lacks)):
            if nodes:
                print(f"{place.name}: {told} {', '.join(nodes)}")
        if place.untold:
            print(f"{place.name}: not told: {place.untold}")
    if any(place.lacks for place in places):
        return 1
    return 3 if any(place.untold for place in places) else 0


def _short(spec: ImageSpec) -> str:
    """`sremut-demo`, `sremut-load`, `busybox`."""
    return spec.name.rpartition(":")[0].replace("/", "-")
