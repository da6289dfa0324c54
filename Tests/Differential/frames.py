"""Lists of byte strings as the executable `differential` reads and writes them."""

import struct


def packed(fields):
    return struct.pack("<I", len(fields)) + b"".join(struct.pack("<I", len(field)) + field for field in fields)


def unpacked(data):
    """The lists of byte strings in the data."""
    at, found = 0, []

    def number():
        nonlocal at
        at += 4
        return struct.unpack_from("<I", data, at - 4)[0]

    while at < len(data):
        fields = []
        for _ in range(number()):
            length = number()
            fields.append(data[at:at + length])
            at += length
        found.append(fields)
    return found


def received(stream):
    """The next list of byte strings of a stream."""
    number = lambda: struct.unpack("<I", stream.read(4))[0]
    return [stream.read(number()) for _ in range(number())]
