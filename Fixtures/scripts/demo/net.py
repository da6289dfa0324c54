"""The demo model in PyTorch: a Qwen3 decoder with optional 4-bit fake quantisation of every matrix."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

GROUP = 64
LEVELS = 15


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of the network; every matrix input is a multiple of the quantisation group."""

    vocab: int = 2048
    hidden: int = 256
    layers: int = 5
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 512
    theta: float = 10000.0
    eps: float = 1e-6
    positions: int = 2048


def affine_parameters(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and bias of each group as MLX chooses them: anchored at the larger end, zero representable."""
    groups = weight.reshape(*weight.shape[:-1], -1, GROUP)
    low, high = groups.amin(-1), groups.amax(-1)
    anchored_low = low.abs() > high.abs()
    scale = ((high - low) / LEVELS).clamp(min=1e-7)
    scale = torch.where(anchored_low, scale, -scale)
    edge = torch.where(anchored_low, low, high)
    steps = torch.round(edge / scale)
    exact = steps != 0
    scale = torch.where(exact, edge / torch.where(exact, steps, 1), scale)
    bias = torch.where(exact, edge, 0)
    return scale.half().float(), bias.half().float()


def codes(weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Integer codes 0...15 of a matrix under given float16-rounded scales and biases."""
    groups = weight.reshape(*weight.shape[:-1], -1, GROUP)
    return torch.round((groups - bias[..., None]) / scale[..., None]).clamp(0, LEVELS)


def dequantised(weight: torch.Tensor) -> torch.Tensor:
    """The matrix a reader of the 4-bit file sees."""
    scale, bias = affine_parameters(weight)
    return (codes(weight, scale, bias) * scale[..., None] + bias[..., None]).reshape(weight.shape)


def rms_norm(x: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + eps) * gain).to(x.dtype)


class Network(nn.Module):
    """Parameters carry the names of the checkpoint, with dots written as in mlx-lm's Qwen3."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.fake_quantise = False
        self.weights = nn.ParameterDict()
        s = shape

        def matrix(name, rows, columns, std):
            self.weights[name.replace(".", "/")] = nn.Parameter(torch.randn(rows, columns) * std)

        def gain(name, size):
            self.weights[name.replace(".", "/")] = nn.Parameter(torch.ones(size))

        matrix("model.embed_tokens.weight", s.vocab, s.hidden, 0.02)
        gain("model.norm.weight", s.hidden)
        inner = 0.5 * s.hidden**-0.5
        for n in range(s.layers):
            p = f"model.layers.{n}."
            gain(p + "input_layernorm.weight", s.hidden)
            gain(p + "post_attention_layernorm.weight", s.hidden)
            gain(p + "self_attn.q_norm.weight", s.head_dim)
            gain(p + "self_attn.k_norm.weight", s.head_dim)
            matrix(p + "self_attn.q_proj.weight", s.heads * s.head_dim, s.hidden, inner)
            matrix(p + "self_attn.k_proj.weight", s.kv_heads * s.head_dim, s.hidden, inner)
            matrix(p + "self_attn.v_proj.weight", s.kv_heads * s.head_dim, s.hidden, inner)
            matrix(p + "self_attn.o_proj.weight", s.hidden, s.heads * s.head_dim, inner / (2 * s.layers) ** 0.5)
            matrix(p + "mlp.gate_proj.weight", s.ffn, s.hidden, inner)
            matrix(p + "mlp.up_proj.weight", s.ffn, s.hidden, inner)
            matrix(p + "mlp.down_proj.weight", s.hidden, s.ffn, inner / (2 * s.layers) ** 0.5)
        frequency = s.theta ** (-torch.arange(0, s.head_dim, 2).float() / s.head_dim)
        angle = torch.outer(torch.arange(s.positions).float(), frequency)
        self.register_buffer("cos", torch.cat([angle.cos(), angle.cos()], -1), persistent=False)
        self.register_buffer("sin", torch.cat([angle.sin(), angle.sin()], -1), persistent=False)

    def named(self) -> dict[str, torch.Tensor]:
        """Every parameter under its checkpoint name."""
        return {name.replace("/", "."): value for name, value in self.weights.items()}

    def get(self, name: str) -> torch.Tensor:
        weight = self.weights[name.replace(".", "/")]
        if self.fake_quantise and weight.dim() == 2:
            return weight + (dequantised(weight.detach()) - weight.detach())
        return weight

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[-2]
        cos, sin = self.cos[:length].to(x.dtype), self.sin[:length].to(x.dtype)
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def hidden(self, ids: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
        s, get = self.shape, self.get
        batch, length = ids.shape
        x = F.embedding(ids, embedding)
        for n in range(s.layers):
            p = f"model.layers.{n}."
            h = rms_norm(x, get(p + "input_layernorm.weight"), s.eps)

            def heads(name, count):
                return F.linear(h, get(p + name)).view(batch, length, count, s.head_dim).transpose(1, 2)

            q = self.rotate(rms_norm(heads("self_attn.q_proj.weight", s.heads), get(p + "self_attn.q_norm.weight"), s.eps))
            k = self.rotate(rms_norm(heads("self_attn.k_proj.weight", s.kv_heads), get(p + "self_attn.k_norm.weight"), s.eps))
            v = heads("self_attn.v_proj.weight", s.kv_heads)
            k, v = (t.repeat_interleave(s.heads // s.kv_heads, 1) for t in (k, v))
            q, k, v = q.to(v.dtype), k.to(v.dtype), v
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + F.linear(a.transpose(1, 2).reshape(batch, length, -1), get(p + "self_attn.o_proj.weight"))
            h = rms_norm(x, get(p + "post_attention_layernorm.weight"), s.eps)
            gated = F.silu(F.linear(h, get(p + "mlp.gate_proj.weight"))) * F.linear(h, get(p + "mlp.up_proj.weight"))
            x = x + F.linear(gated, get(p + "mlp.down_proj.weight"))
        return rms_norm(x, get("model.norm.weight"), s.eps)

    def loss(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Weighted mean cross-entropy of each next token; positions of weight 0 cost no logits."""
        embedding = self.get("model.embed_tokens.weight")
        h = self.hidden(ids[:, :-1], embedding)
        keep = weight[:, 1:] > 0
        logits = F.linear(h[keep], embedding).float()
        loss = F.cross_entropy(logits, ids[:, 1:][keep], reduction="none")
        kept = weight[:, 1:][keep]
        return (loss * kept).sum() / kept.sum()
