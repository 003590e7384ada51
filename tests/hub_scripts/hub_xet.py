"""The Hub stand-in's Xet storage, by which the client sends large files unless it is told not to.

As the protocol says (https://huggingface.co/docs/xet): files are cut into chunks, chunks lie compressed in xorbs, and a
shard tells of which chunks a file consists. What hf_xet 1.8 asks for is here: a token, a grant for each xorb, its
upload to the address of the grant, and streamed shards; and how it went before. No chunk is ever there already.
"""

import hashlib
import secrets
import struct
import time

import pyarrow as pa

from tests.hub_scripts.hub_repositories import Refused

ENTRY = 48  # bytes of everything in a shard
WITH_VERIFICATION, WITH_METADATA = 1 << 31, 1 << 30
BOOKEND = b"\xff" * 32


def write_token(hub, user):
    """What the client needs to write: a token for the storage, and where that is."""
    token = "xet_" + secrets.token_hex(16)
    hub.users[token] = user
    return {"accessToken": token, "exp": int(time.time()) + 3600, "casUrl": hub.url}


def hex_of(digest):
    """A hash as it stands in addresses: four little-endian numbers."""
    return "".join(digest[at : at + 8][::-1].hex() for at in range(0, 32, 8))


def store_xorb(hub, name, body):
    """Takes the chunks out of a xorb, up to what follows them there."""
    chunks, at = [], 0
    while at + 8 <= len(body) and body[at] == 0:
        size, kind, length = (
            int.from_bytes(body[at + 1 : at + 4], "little"),
            body[at + 4],
            int.from_bytes(body[at + 5 : at + 8], "little"),
        )
        chunks.append(unpacked(body[at + 8 : at + 8 + size], kind, length))
        at += 8 + size
    hub.xorbs[name] = chunks


def unpacked(data, kind, length):
    """A chunk's content: stored as it is, as LZ4, or as LZ4 of its bytes in four groups."""
    if kind == 0:
        return data
    data = pa.decompress(data, decompressed_size=length, codec="lz4", asbytes=True)
    if kind == 1:
        return data
    content, at = bytearray(length), 0
    for group in range(4):
        count = len(range(group, length, 4))
        content[group::4] = data[at : at + count]
        at += count
    return bytes(content)


def store_shard(hub, body):
    """Puts the files that a shard tells of together, and keeps them by their SHA-256, as git-lfs does."""
    at = ENTRY
    while body[at : at + 32] != BOOKEND:
        flags, count = struct.unpack_from("<II", body, at + 32)
        terms = [body[at + ENTRY * term : at + ENTRY * (term + 1)] for term in range(1, count + 1)]
        at += ENTRY * (1 + count * (2 if flags & WITH_VERIFICATION else 1))
        if not flags & WITH_METADATA:
            raise Refused(400, "a file of a repository needs its SHA-256")
        sha256 = hex_of(body[at : at + 32])
        at += ENTRY
        content = b"".join(part for term in terms for part in part_of(hub, term))
        if hashlib.sha256(content).hexdigest() != sha256:
            raise Refused(400, "the chunks are not those of the file")
        hub.lfs[sha256] = content


def part_of(hub, term):
    """The chunks of a xorb that a file consists of, one after the other."""
    name = hex_of(term[:32])
    if name not in hub.xorbs:
        raise Refused(400, f"xorb {name} is not there")
    _, _, start, end = struct.unpack_from("<IIII", term, 32)
    return hub.xorbs[name][start:end]
