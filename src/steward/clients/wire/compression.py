"""Decompresses untrusted bodies within a fixed limit of memory."""

from __future__ import annotations

import zlib

import cramjam

from steward.errors import StewardError

__all__ = ["pack_snappy", "unpack", "unpack_gzip", "unpack_snappy"]


def unpack(body: bytes, *, encoding: str, most_bytes: int) -> bytes:
    """Unpack a body by its `Content-Encoding`."""
    match encoding.strip().lower():
        case "" | "identity":
            if len(body) > most_bytes:
                raise _too_large(most_bytes)
            return body
        case "gzip":
            return unpack_gzip(body, most_bytes=most_bytes)
        case "snappy":
            return unpack_snappy(body, most_bytes=most_bytes)
    raise StewardError(
        f"the body is packed as '{encoding}'", hint="use gzip, snappy, or send it as it is"
    )


def unpack_snappy(body: bytes, *, most_bytes: int) -> bytes:
    """Unpack a snappy block. It begins with its own unpacked size, which is checked first."""
    size, shift = 0, 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise StewardError("is not snappy: the size at its beginning is cut or too large")
    if size > most_bytes:
        raise _too_large(most_bytes)
    try:
        unpacked = bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as fault:
        raise StewardError(
            f"is not snappy: {fault}", hint="send one raw snappy block, not the framed format"
        ) from fault
    if len(unpacked) != size:
        raise StewardError(f"is not snappy: {len(unpacked)} bytes instead of {size}")
    return unpacked


def pack_snappy(body: bytes) -> bytes:
    """Pack into one raw snappy block."""
    return bytes(cramjam.snappy.compress_raw(body))


def unpack_gzip(body: bytes, *, most_bytes: int) -> bytes:
    """Unpack gzip piece by piece, and stop as soon as it is too large."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(body, most_bytes + 1)
    except zlib.error as fault:
        raise StewardError(f"is not gzip: {fault}") from fault
    if len(unpacked) > most_bytes:
        raise _too_large(most_bytes)
    if not unpacker.eof:
        raise StewardError("is not gzip: it is cut off")
    if unpacker.unused_data:
        raise StewardError("is not gzip: something follows its end")
    return unpacked


def _too_large(most_bytes: int) -> StewardError:
    return StewardError(
        f"unpacks to more than {most_bytes} bytes", hint="send fewer samples in one request"
    )
