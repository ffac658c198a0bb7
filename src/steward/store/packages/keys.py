"""Ed25519 keys, signatures, and the trusted keys of a site."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from steward.errors import StewardError

__all__ = ["PublicKey", "Signature", "make_key", "read_key", "sign", "trust", "trusted_keys"]

_PREFIX = "steward-ed25519:"
_TRUSTED = "trusted-keys"  # a file in the packages folder: one key per line
_CONTEXT = b"steward rule package, manifest 1\n"  # domain separation of signatures
_LONGEST = 10_000  # bytes of a key or signature file


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key, with its text form for sharing."""

    raw: bytes

    @property
    def text(self) -> str:
        """The key as one line of text."""
        return _PREFIX + base64.b64encode(self.raw).decode()

    @property
    def fingerprint(self) -> str:
        """The short fingerprint of the key."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    @classmethod
    def of(cls, text: str, *, where: str) -> PublicKey:
        """Parse a key from untrusted text."""
        first = text.strip().split("\n")[0].strip()
        try:
            raw = base64.b64decode(first.removeprefix(_PREFIX).split()[0], validate=True)
        except (binascii.Error, ValueError, IndexError):
            raw = b""
        if len(raw) != 32:
            problem = f"this is not a public key: '{first[:60]}'"
            hint = f"one line that begins with {_PREFIX}, as `steward rules pack --new-key` prints"
            raise StewardError(problem, where=where, hint=hint)
        return cls(raw)


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature, and the key that it claims."""

    key: PublicKey
    signature: bytes

    def as_bytes(self) -> bytes:
        """Return the content of the signature file."""
        record = {"key": self.key.text, "signature": base64.b64encode(self.signature).decode()}
        return json.dumps(record, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def of(cls, data: bytes, *, where: str) -> Signature:
        """Parse an untrusted signature file."""
        try:
            record = json.loads(data)
            key = PublicKey.of(str(record["key"]), where=where)
            return cls(key, base64.b64decode(str(record["signature"]), validate=True))
        except (ValueError, KeyError, TypeError, RecursionError) as fault:
            problem = "the signature cannot be read"
            raise StewardError(problem, where=where, hint="ask for the package again") from fault

    def check(self, manifest: bytes, *, where: str) -> None:
        """Raise unless the signature of these bytes is valid for its key."""
        try:
            public = Ed25519PublicKey.from_public_bytes(self.key.raw)
            public.verify(self.signature, _CONTEXT + manifest)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError):
            problem = f"the signature is not that of key {self.key.fingerprint} for this package"
            hint = "it was changed after it was signed: do not use it, ask for it again"
            raise StewardError(problem, where=where, hint=hint) from None


def make_key(file: Path) -> PublicKey:
    """Create a key and write its private half to a file that only its owner can read."""
    secret = Ed25519PrivateKey.generate()
    pem = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        place = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        hint = "name another file; a key that is lost cannot be made again"
        raise StewardError("there is a file already", where=str(file), hint=hint) from None
    with os.fdopen(place, "wb") as opened:
        opened.write(pem)
    return _public(secret)


def read_key(file: Path) -> Ed25519PrivateKey:
    """Read a secret key."""
    hint = "`steward rules pack --new-key FILE` makes one"
    try:
        with file.open("rb") as opened:
            key = load_pem_private_key(opened.read(_LONGEST), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise StewardError("this is not a secret key", where=str(file), hint=hint) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise StewardError("this key is not of kind Ed25519", where=str(file), hint=hint)
    return key


def sign(manifest: bytes, key: Ed25519PrivateKey) -> Signature:
    """Sign a manifest."""
    return Signature(_public(key), key.sign(_CONTEXT + manifest))


def trusted_keys(folder: Path) -> tuple[PublicKey, ...]:
    """Return the trusted keys of a packages folder."""
    file = folder / _TRUSTED
    if not file.exists():
        return ()
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(PublicKey.of(line, where=str(file)) for line in lines if line.strip())


def trust(folder: Path, key: PublicKey) -> None:
    """Add a trusted key."""
    if key in trusted_keys(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _TRUSTED).open("a", encoding="utf-8") as file:
        file.write(f"{key.text}\n")


def _public(key: Ed25519PrivateKey) -> PublicKey:
    return PublicKey(key.public_key().public_bytes_raw())
