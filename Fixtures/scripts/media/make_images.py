"""Writes Fixtures/media: small images of every kind, and what Pillow makes of them (digests of RGB, upright).

  python Fixtures/scripts/media/make_images.py Fixtures/media      (Pillow 12.0.0, numpy)
"""

import hashlib
import io
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

OUT = pathlib.Path(sys.argv[1])
RANDOM = np.random.default_rng(7)


def picture(width, height, channels):
    """Smooth colours with an edge and some noise: every filter and coefficient has work."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [128 + 100 * np.sin(x / (5 + c) + y / (9 - c)) for c in range(channels)]
    image = np.stack(planes, -1) + RANDOM.normal(0, 6, (height, width, channels))
    image[(x + 2 * y) % 23 < 3] += 60
    return np.clip(image, 0, 255).astype(np.uint8)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def filtered(rows, step):
    """Rows of bytes with filters 0 to 4 in turn."""
    out = bytearray()
    above = np.zeros(rows.shape[1], np.int32)
    for number, row in enumerate(rows.astype(np.int32)):
        left = np.concatenate([np.zeros(step, np.int32), row])[: len(row)]
        corner = np.concatenate([np.zeros(step, np.int32), above])[: len(row)]
        kind = number % 5
        estimate = left + above - corner
        pa, pb, pc = abs(estimate - left), abs(estimate - above), abs(estimate - corner)
        paeth = np.where((pa <= pb) & (pa <= pc), left, np.where(pb <= pc, above, corner))
        guess = [np.zeros_like(row), left, above, (left + above) // 2, paeth][kind]
        out.append(kind)
        out += ((row - guess) & 255).astype(np.uint8).tobytes()
        above = row
    return bytes(out)


def packed(samples, depth):
    """[height, width · channels] of samples as rows of bytes."""
    if depth == 16:
        return samples.astype(">u2").view(np.uint8).reshape(samples.shape[0], -1)
    if depth == 8:
        return samples.astype(np.uint8)
    bits = np.zeros((samples.shape[0], -(-samples.shape[1] * depth // 8) * 8), np.uint8)
    for bit in range(depth):
        bits[:, bit : samples.shape[1] * depth : depth] = samples >> (depth - 1 - bit) & 1
    return np.packbits(bits, axis=1)


def png(samples, kind, depth, interlaced=False, extra=b"", level=6, strategy=0):
    """samples: [height, width, channels]."""
    height, width, channels = samples.shape
    step = max(1, channels * depth // 8)
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    raw = b""
    for x, y, dx, dy in passes:
        part = samples[y::dy, x::dx]
        if part.size:
            raw += filtered(packed(part.reshape(part.shape[0], -1), depth), step)
    packer = zlib.compressobj(level, zlib.DEFLATED, 15, 8, strategy)
    data = packer.compress(raw) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))
    cut = len(data) // 2
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data[:cut])
        + chunk(b"IDAT", data[cut:]) + chunk(b"IEND", b"")
    )


def pngs():
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    depths = {0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}
    for kind in channels:
        for depth in depths[kind]:
            for interlaced in [False, True]:
                count = channels[kind]
                if depth == 16:
                    samples = RANDOM.integers(0, 1 << 16, (13, 19, count))
                elif depth == 8 and kind != 3:
                    samples = picture(19, 13, count)
                else:
                    samples = RANDOM.integers(0, 1 << depth, (13, 19, count))
                extra = b""
                if kind == 3:
                    extra = chunk(b"PLTE", RANDOM.integers(0, 256, 3 << depth, np.uint8).tobytes())
                    extra += chunk(b"tRNS", bytes(range(1 << min(depth, 3))))
                elif kind == 0:
                    extra = chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"tRNS", b"\0\1")
                name = f"png-{kind}-{depth}" + ("-adam7" if interlaced else "")
                yield name + ".png", png(samples, kind, depth, interlaced, extra)
    yield "png-1x1-adam7.png", png(picture(1, 1, 3), 2, 8, True)
    yield "png-stored.png", png(picture(40, 20, 3), 2, 8, level=0)
    yield "png-fixed.png", png(picture(40, 20, 3), 2, 8, strategy=zlib.Z_FIXED)
    flat = np.full((64, 64, 3), 77, np.uint8)
    yield "png-flat.png", png(flat, 2, 8, level=9)
    exif = b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"
    yield "png-turned.png", png(picture(9, 5, 3), 2, 8, extra=chunk(b"eXIf", exif))


def jpegs():
    def save(array, mode, **options):
        out = io.BytesIO()
        Image.fromarray(array if array.shape[-1] > 1 else array[..., 0], mode).save(out, "JPEG", **options)
        return out.getvalue()

    for width, height in [(37, 29), (64, 48), (1, 1), (3, 2), (17, 16), (16, 33)]:
        for sampling in [0, 1, 2]:
            for progressive in [False, True]:
                if (width, height) in [(64, 48), (17, 16), (16, 33)] and (progressive or sampling == 0):
                    continue
                name = f"jpeg-{width}x{height}-{['444', '422', '420'][sampling]}" + ("-progressive" if progressive else "")
                yield name + ".jpg", save(
                    picture(width, height, 3), "RGB", quality=85, subsampling=sampling, progressive=progressive)
    yield "jpeg-grey.jpg", save(picture(37, 29, 1), "L", quality=90)
    yield "jpeg-grey-progressive.jpg", save(picture(37, 29, 1), "L", quality=60, progressive=True)
    yield "jpeg-cmyk.jpg", save(picture(37, 29, 4), "CMYK", quality=90)
    yield "jpeg-cmyk-progressive.jpg", save(picture(20, 20, 4), "CMYK", quality=90, progressive=True)
    yield "jpeg-rgb.jpg", save(picture(37, 29, 3), "RGB", quality=90, keep_rgb=True)
    yield "jpeg-restarts.jpg", save(picture(70, 40, 3), "RGB", quality=75, restart_marker_blocks=2)
    yield "jpeg-restarts-progressive.jpg", save(
        picture(70, 40, 3), "RGB", quality=75, restart_marker_rows=1, progressive=True)
    yield "jpeg-best.jpg", save(picture(40, 40, 3), "RGB", quality=100, subsampling=0, optimize=True)
    yield "jpeg-worst.jpg", save(picture(40, 40, 3), "RGB", quality=1)
    noise = RANDOM.integers(0, 256, (32, 32, 3), np.uint8)
    yield "jpeg-noise.jpg", save(noise, "RGB", quality=30, subsampling=2)
    # 4:4:0 and 4:1:0 cannot be asked for: the factors of other files are changed, which makes other, valid pictures.
    square = save(picture(32, 32, 3), "RGB", quality=85, subsampling=1)
    yield "jpeg-440.jpg", relabelled(square, 32, 32, 0x12)
    quarter = save(picture(32, 32, 3), "RGB", quality=85, subsampling=2)
    yield "jpeg-410.jpg", relabelled(quarter, 64, 16, 0x41)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        yield f"jpeg-turned-{orientation}.jpg", save(picture(12, 7, 3), "RGB", quality=90, exif=exif)


def relabelled(data, width, height, factors):
    """The same blocks as a frame of another size, with other factors of the first component."""
    at = data.index(b"\xff\xc0")
    frame = data[at : at + 5] + struct.pack(">HH", height, width) + data[at + 9 : at + 11] + bytes([factors])
    return data[:at] + frame + data[at + 12 :]


def rgb(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode == "I;16":
        # Pillow clips 16-bit grey at 255, which makes nearly everything white; the high byte is what is meant.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def digest(image):
    return hashlib.sha256(image.tobytes()).hexdigest()


def main():
    OUT.mkdir(exist_ok=True)
    lines = []
    for name, data in [*pngs(), *jpegs()]:
        image = rgb(data)
        (OUT / name).write_bytes(data)
        lines.append(f"{name}\t{image.width}\t{image.height}\t{digest(image)}")
    (OUT / "images.tsv").write_text("\n".join(lines) + "\n")
    sizes = []
    source = rgb((OUT / "jpeg-64x48-420.jpg").read_bytes())
    for width, height in [(96, 48), (48, 96), (64, 48), (17, 5), (1, 1), (200, 150), (63, 47), (64, 7), (5, 48)]:
        image = source.resize((width, height), Image.Resampling.BICUBIC)
        sizes.append(f"{width}\t{height}\t{digest(image)}")
    (OUT / "resized.tsv").write_text("\n".join(sizes) + "\n")


main()
