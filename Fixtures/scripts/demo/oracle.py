"""The independent reader: unpacks the 4-bit file with numpy and runs it in transformers' Qwen3 in float32."""

import json

import numpy as np
import safetensors.numpy
import torch
import transformers

import chat


def dequantised(tensors: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    plain = {}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        if f"{module}.scales" not in tensors:
            plain[name] = torch.from_numpy(tensor.astype(np.float32))
        elif kind == "weight":
            rows = tensor.shape[0]
            codes = (tensor[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).reshape(rows, -1, 64).astype(np.float32)
            scales, biases = (tensors[f"{module}.{part}"].astype(np.float32)[:, :, None] for part in ("scales", "biases"))
            plain[name] = torch.from_numpy((codes * scales + biases).reshape(rows, -1))
    return plain


class Oracle:
    """Greedy replies of the fixture's model."""

    def __init__(self):
        configuration = json.loads((chat.FIXTURE / "config.json").read_text())
        for key in ("quantization", "quantization_config"):
            configuration.pop(key)
        self.model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**configuration | {"torch_dtype": "float32"})).eval()
        weights = dequantised(safetensors.numpy.load_file(chat.FIXTURE / "model.safetensors"))
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        self.model.load_state_dict(weights)
        self.tokenizer = chat.load_tokenizer()
        self.ends = json.loads((chat.FIXTURE / "generation_config.json").read_text())["eos_token_id"]

    @torch.no_grad()
    def replies(self, prompts: list[str], limit: int = 300) -> list[str]:
        """Replies to many prompts at once, padded on the left; text after an end token is dropped."""
        encoded = [self.tokenizer.encode(prompt).ids for prompt in prompts]
        width = max(map(len, encoded))
        ids = torch.tensor([[self.ends[-1]] * (width - len(row)) + row for row in encoded])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in encoded])
        output = self.model.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=limit, eos_token_id=self.ends, pad_token_id=self.ends[-1]
        )
        texts = []
        for row in output[:, width:].tolist():
            stop = next((n for n, token in enumerate(row) if token in self.ends), None)
            texts.append(self.tokenizer.decode(row[:stop], skip_special_tokens=False) + ("" if stop is not None else " [did not stop]"))
        return texts

    @torch.no_grad()
    def greedy(self, prompt_ids: list[int], limit: int) -> tuple[list[int], float, bool]:
        """Ids up to and with an end token, the smallest lead of the best over the second logit, and whether it stopped."""
        cache, ids, margin, fed = None, [], float("inf"), prompt_ids
        while len(ids) < limit:
            output = self.model(torch.tensor([fed]), past_key_values=cache, use_cache=True)
            best, second = output.logits[0, -1].topk(2)[0].tolist()
            ids.append(int(output.logits[0, -1].argmax()))
            cache, fed, margin = output.past_key_values, ids[-1:], min(margin, best - second)
            if ids[-1] in self.ends:
                return ids, margin, True
        return ids, margin, False

    @torch.no_grad()
    def logits(self, ids: list[int]) -> torch.Tensor:
        return self.model(torch.tensor([ids])).logits[0]


def parts(reply: str) -> tuple[str, str]:
    """Thought and answer of a reply."""
    thought, found, answer = reply.partition("</think>")
    return (thought.removeprefix("<think>").strip(), answer.strip()) if found else ("", reply.strip())
