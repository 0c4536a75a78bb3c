"""Write `tokens/`: the sound tokens that `test_attestation_mutations` damages.

They are kept as files so that a seed always gives the same mutations, whatever the keys. Run this
only to change what they are: `python tests/unit/attestation/make_tokens.py`.
"""

from __future__ import annotations

import forge

from pytest_sremut.attestation.rfc3161 import reply
from pytest_sremut.attestation.rfc3161.request import build_query


def main() -> None:
    for kind, length, algorithm, bare in (
        ("ec", 1, "sha256", False),
        ("ec", 2, "sha256", False),
        ("ec", 3, "sha384", False),
        ("rsa", 2, "sha256", False),
        ("ec", 2, "sha512", True),
    ):
        query = build_query(forge.DATA, hash_algorithm=algorithm)
        stamp = forge.authority(kind, length).stamp(query)
        if bare:
            stamp = reply.parse_granted(stamp)[1]
        name = f"{kind}-{length}-{algorithm}{'-bare' if bare else ''}"
        (forge.TOKENS / f"{name}.tsq").write_bytes(query)
        (forge.TOKENS / f"{name}.tsr").write_bytes(stamp)
        (forge.TOKENS / f"{name}.root.der").write_bytes(forge.identity(kind, length).chain[-1])


if __name__ == "__main__":
    main()
