"""Writes notes that differ in a number, a code, a version, a phrase or one word, and a question for each of a hundred.

identifier_notes.py OUT writes OUT/notes and OUT/judgements.jsonl for `mlxserve search --evaluate`: P@1 says how often the
one note that has what is asked comes first among its like."""

import json
import pathlib
import random
import sys

SUPPLIERS = ["Weber Heating", "Northwind Paper", "Bluebird Books", "Marino Tiles", "Olsen Electric", "Kite Internet"]
THINGS = ["boiler service", "printer paper", "garden chairs", "bathroom tiles", "new sockets", "a year of internet"]
CHANGES = ["faster indexing", "fixes for the search page", "a new settings dialog", "better error messages",
           "smaller downloads", "support for dark mode", "fewer crashes on start", "a list of recent files"]
HEROES = ["Anna", "Ben", "Clara", "David", "Eva", "Felix"]
RARE = ["zirconia", "marzipan", "theodolite", "oleander", "sextant", "kumquat", "gneiss", "bassoon", "tapir", "vellum",
        "quinoa", "lichen", "pergola", "sorrel", "trivet", "ocarina", "plumbago", "quince", "samovar", "yurt"]
ADJECTIVES = ["slow", "blue", "quiet", "second", "old", "small", "green", "late", "early", "open"]
NOUNS = ["ladder", "harbour", "kettle", "window", "train", "garden", "letter", "market", "bridge", "river"]


def main():
    out = pathlib.Path(sys.argv[1])
    (out / "notes").mkdir(parents=True, exist_ok=True)
    chance = random.Random(49)
    questions = []

    def note(name, text, query=None):
        (out / "notes" / name).write_text(text + "\n")
        if query:
            questions.append({"query": query, "relevant": {name: 1}})

    for n in range(60):
        number = f"2025-{n + 20:04}"
        note(f"bill {n:03}.md",
             f"Invoice {number} of {chance.choice(SUPPLIERS)} for {chance.choice(THINGS)}. "
             f"Paid {chance.randint(20, 900)}.{chance.randint(10, 99)} euros on 2025-{n % 12 + 1:02}-{n % 28 + 1:02} by transfer.",
             f"invoice {number}" if n % 3 == 0 else None)
    for n in range(40):
        version = f"0.{50 + n}.{n % 4}"
        note(f"changes {n:03}.md",
             f"Release {version} brings {chance.choice(CHANGES)} and {chance.choice(CHANGES)}. "
             f"It needs at least version 0.{40 + n // 2}.{n % 3} of the library.",
             (version if n % 4 == 0 else f"what is new in {version}") if n % 2 == 0 else None)
    for n in range(30):
        code = f"E{4700 + n}" if n % 2 else f"MATHN-{4700 + n}"
        note(f"fault {n:03}.md",
             f"The error {code} came up while {chance.choice(HEROES)} saved a file. A restart helped; the log said nothing else.",
             (code if n % 3 else f"error {code}") if n % 3 != 1 else None)
    for n, word in enumerate(RARE):
        note(f"diary {n:03}.md",
             f"{chance.choice(HEROES)} came by in the afternoon. We had tea and talked about the holidays and a {word} "
             f"that {chance.choice(HEROES)} had seen. In the evening it rained and we played cards.",
             word if n % 2 else f"who had seen the {word}")
    for n in range(20):
        phrase = f"the {ADJECTIVES[n % 10]} {NOUNS[(n * 3 + n // 10) % 10]}"
        other = f"{NOUNS[(n * 3 + n // 10) % 10]} was {ADJECTIVES[n % 10]}"
        note(f"tale {n:03}.md",
             f"A story that {chance.choice(HEROES)} told: {phrase} was the last thing anybody saw that day.",
             f'"{phrase.removeprefix("the ")}"')
        note(f"other {n:03}.md", f"A story that {chance.choice(HEROES)} told: every {other}, and nobody saw anything else that day.")
    for n in range(20):
        name = f"v0.12.{n}.md"
        note(name, f"Changes: {chance.choice(CHANGES)}, {chance.choice(CHANGES)}.", f"0.12.{n}" if n % 2 else None)
    (out / "judgements.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions))
    print(f"{len(list((out / 'notes').iterdir()))} notes, {len(questions)} questions")


if __name__ == "__main__":
    main()
