"""Trains the demo model from scratch on a CPU; the learning rate falls and the 4-bit rounding is learned in the last part."""

import argparse
import itertools
import json
import pathlib
import platform
import random
import time

import torch

import chat
import net


class Muon(torch.optim.Optimizer):
    """Momentum whose matrix updates are orthogonalised (Newton-Schulz), for the matrices inside the layers."""

    def __init__(self, parameters, lr, momentum=0.95, decay=0.01):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": decay})

    @staticmethod
    def orthogonalised(g):
        x = g.bfloat16()
        tall = x.shape[-2] > x.shape[-1]
        x = x.mT if tall else x
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        return (x.mT if tall else x).float()

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                by_shape.setdefault(p.shape, []).append(p)
            for shape, parameters in by_shape.items():
                updates = []
                for p in parameters:
                    momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    momentum.lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(momentum, group["momentum"]))
                scale = max(1, shape[0] / shape[1]) ** 0.5
                for p, update in zip(parameters, self.orthogonalised(torch.stack(updates))):
                    p.mul_(1 - group["lr"] * group["decay"])
                    p.add_(update, alpha=-group["lr"] * scale)


def encoded(corpus):
    """Ids and weights of every item of the corpus file."""
    encode = chat.Encoder(chat.load_tokenizer())
    with open(corpus, encoding="utf-8") as lines:
        pairs = (encode(json.loads(line)) for line in lines)
        return [(torch.tensor(ids, dtype=torch.int16), torch.tensor(weights)) for ids, weights in pairs]


def batches(items, seed, tokens):
    """Endless batches of about `tokens` tokens, of items of similar length, in shuffled order."""
    for epoch in itertools.count():
        r = random.Random(seed * 1000 + epoch)
        order = list(range(len(items)))
        r.shuffle(order)
        for start in range(0, len(order), 4096):
            chunk = sorted(order[start : start + 4096], key=lambda n: len(items[n][0]))
            groups, group = [], []
            for n in chunk:
                if group and (len(group) + 1) * len(items[n][0]) > tokens:
                    groups.append(group)
                    group = []
                group.append(n)
            groups.append(group)
            r.shuffle(groups)
            for group in groups:
                width = max(len(items[n][0]) for n in group)
                ids, learned = torch.zeros(len(group), width, dtype=torch.long), torch.zeros(len(group), width)
                for row, n in enumerate(group):
                    ids[row, : len(items[n][0])] = items[n][0]
                    learned[row, : len(items[n][1])] = items[n][1]
                yield ids, learned


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("corpus")
    arguments.add_argument("output", type=pathlib.Path)
    arguments.add_argument("--steps", type=int, default=1500)
    arguments.add_argument("--minutes", type=float, default=110, help="on a slow machine the schedule shortens to end after this time")
    arguments.add_argument("--fall", type=float, default=0.5, help="share of the steps in which the learning rate falls")
    arguments.add_argument("--rounding", type=float, default=0.25, help="share of the steps, at the end, with 4-bit fake quantisation")
    arguments.add_argument("--tokens", type=int, default=4096, help="tokens per batch")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--compile", action="store_true", help="use torch.compile (about a quarter faster; needs a C++ compiler)")
    arguments.add_argument("--resume", action="store_true", help="continue from the output file of an interrupted run")
    options = arguments.parse_args()

    torch.manual_seed(options.seed)
    print(f"python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads, seed {options.seed}", flush=True)
    items = encoded(options.corpus)
    print(f"{len(items)} items, {sum(len(i) for i, _ in items)} tokens, {int(sum((w > 0).sum() for _, w in items))} learned", flush=True)

    network = net.Network(net.Shape())
    named = network.named()
    print(f"{sum(p.numel() for p in named.values())} parameters", flush=True)
    inner = [p for name, p in named.items() if p.dim() == 2 and "embed" not in name]
    outer = [p for name, p in named.items() if p.dim() == 1 or "embed" in name]
    optimisers = [Muon(inner, lr=0.02), torch.optim.AdamW(outer, lr=0.004, betas=(0.9, 0.98), weight_decay=0.0)]
    full = [optimiser.param_groups[0]["lr"] for optimiser in optimisers]
    done = 0
    if options.resume:
        state = torch.load(options.output)
        done = state["step"]
        with torch.no_grad():
            for name, p in named.items():
                p.copy_(state["weights"][name])
        for optimiser, saved in zip(optimisers, state["optimisers"]):
            optimiser.load_state_dict(saved)
        print(f"resumed after step {done}", flush=True)
    if options.compile:
        network.hidden = torch.compile(network.hidden, dynamic=True)

    def save(step):
        weights = {name: p.detach() for name, p in named.items()}
        torch.save({"step": step, "weights": weights, "optimisers": [o.state_dict() for o in optimisers]}, options.output)

    began, sum_loss, seen = time.time(), 0.0, 0
    for step, (ids, learned) in itertools.islice(enumerate(batches(items, options.seed, options.tokens)), done, options.steps):
        start = done / options.steps
        progress = max(step / options.steps, start + (1 - start) * (time.time() - began) / 60 / options.minutes)
        if progress >= 1:
            break
        rate = min(1.0, (step + 1) / 100, max(0.02, (1 - progress) / options.fall))
        for optimiser, value in zip(optimisers, full):
            optimiser.param_groups[0]["lr"] = value * rate
        network.fake_quantise = progress >= 1 - options.rounding
        with torch.autocast("cpu", torch.bfloat16):
            loss = network.loss(ids, learned)
        for optimiser in optimisers:
            optimiser.zero_grad(set_to_none=True)
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
        sum_loss, seen = sum_loss + loss.item(), seen + ids.numel()
        if (step + 1) % 50 == 0:
            minutes = (time.time() - began) / 60
            print(f"step {step + 1} loss {sum_loss / 50:.4f} rate {rate:.3f} {seen / minutes / 60:.0f} tokens/s {minutes:.1f} min", flush=True)
            sum_loss = 0.0
        if (step + 1) % 100 == 0:
            save(step + 1)
    save(step + 1)
    print(f"trained steps {done} to {step + 1}, {seen} tokens in {(time.time() - began) / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
