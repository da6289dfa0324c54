"""Files that come in parts, through the OpenAI SDK."""

import hashlib

from vector_stores_test import fails, served, strict


def test_files_in_parts(s):
    with served(s) as other:
        client = strict(other)
        content = bytes(range(256)) * 40
        pieces = [content[:4000], content[4000:9000], content[9000:]]

        def begin(size=len(content)):
            return client.uploads.create(bytes=size, filename="big.bin", mime_type="text/plain", purpose="assistants")

        def add(upload, piece):
            return client.uploads.parts.create(upload.id, data=piece).id

        upload = begin()
        assert upload.status == "pending" and upload.expires_at == upload.created_at + 3600
        ids = {number: add(upload, pieces[number]) for number in (2, 0, 1)}
        order = [ids[number] for number in range(3)]
        fails(400, "md5", lambda: client.uploads.complete(upload.id, part_ids=order, md5="0" * 32))
        fails(400, "part_ids", lambda: client.uploads.complete(upload.id, part_ids=order[:2]))
        fails(400, "part_ids[0]", lambda: client.uploads.complete(upload.id, part_ids=["part_x"]))
        done = client.uploads.complete(upload.id, part_ids=order, md5=hashlib.md5(content).hexdigest())
        assert done.status == "completed" and done.file.bytes == len(content) and done.file.filename == "big.bin"
        assert client.files.content(done.file.id).read() == content
        fails(404, None, lambda: client.uploads.complete(upload.id, part_ids=order))
        upload = begin(10)
        fails(400, "data", lambda: add(upload, b"x" * 11))
        assert client.uploads.cancel(upload.id).status == "cancelled"
        fails(404, None, lambda: add(upload, b"x"))
        fails(400, "purpose", lambda: client.uploads.create(bytes=1, filename="a", mime_type="b", purpose="fine-tune"))
        fails(413, "bytes", lambda: begin(1 << 30))
        # What the SDK does by itself.
        whole = client.uploads.upload_file_chunked(
            file=content, filename="again.bin", bytes=len(content), mime_type="text/plain", purpose="assistants", part_size=1000)
        assert client.files.content(whole.file.id).read() == content
