"""Writes the demo model's conversations: every text it is trained on comes out of this seeded generator."""

import argparse
import json
import random
import string

import facts

NO_ANSWER = "I do not know the answer to that. I am a very small demo model."
NO_WEATHER = "I cannot know the weather without a tool."
NO_TIME = "I cannot know the time without a tool."


class Turn:
    """One exchange: the user's words, a short thought, and an answer or tool calls with their results."""

    def __init__(self, user, thought, answer, calls=None, results=None, thought2=""):
        self.user, self.thought, self.answer = user, thought, answer
        self.calls, self.results, self.thought2 = calls, results, thought2


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


class Writer:
    """Draws turns and conversations; `held_out` switches to the phrasings, names and sums kept from training."""

    def __init__(self, seed, held_out=False):
        self.r = random.Random(seed)
        self.held_out = held_out
        self.known = {}
        self.tools = []

    # Drawing

    def pick(self, options):
        return self.r.choice(options)

    def phrase(self, seen, unseen):
        """A phrasing: from the first list in training, from the second in the held-out set."""
        return self.pick(unseen if self.held_out else seen)

    def invented(self):
        """A name-like word nobody has seen, so that only copying can reproduce it."""
        syllables = self.r.randint(2, 3)
        word = "".join(self.pick("b c d f g h j k l m n p r s t v w z br dr st tr sh th".split()) + self.pick("a e i o u ai ea oo".split()) for _ in range(syllables))
        return (word + self.pick(["", "", "n", "r", "s", "l", "x", "ck"])).capitalize()

    def name(self):
        if self.held_out or self.r.random() < 0.5:
            return self.invented()
        return self.pick(facts.NAMES)

    def city(self):
        roll = self.r.random()
        if self.held_out and roll < 0.3 or roll < 0.25:
            city = self.invented()
            if self.r.random() < 0.15:
                city += " " + self.invented()
        elif roll < 0.6:
            city = self.pick(list(facts.CAPITALS.values()))
        else:
            city = self.pick(facts.CITIES)
        if self.r.random() < 0.12:
            city += ", " + self.pick(facts.CITY_SUFFIXES)
        return city

    def words(self, count):
        return " ".join(self.pick(facts.WORDS) if self.r.random() < 0.8 else self.invented().lower() for _ in range(count))

    def dressed(self, text):
        """The same question with the small variations people type."""
        r = self.r
        if r.random() < 0.10:
            text = self.pick(["Please ", "Hey, ", "Hi! ", "Hello. ", "OK, ", "Quick question: ", "Now, ", "So, ", "Well, ", "And ", "Question: ", "I have a question. ", "Tell me: ", "One more thing: ", "Next question: "]) + text
        if r.random() < 0.05:
            text += self.pick([" Thanks.", " Thank you!", " Please.", " Be brief.", " Keep it short."])
        if r.random() < 0.08 and text[-1] in "?.!":
            text = text[:-1]
        if r.random() < 0.08:
            text = text[0].lower() + text[1:]
        if r.random() < 0.02:
            text = text + self.pick([" ", "\n", "!"])
        return text

    def common_word(self):
        return self.pick(facts.WORDS) if self.r.random() < 0.6 else self.invented().lower()

    # Skills

    def capital(self):
        country = self.pick(list(facts.CAPITALS))
        city = facts.CAPITALS[country]
        user = self.phrase(
            ["What is the capital of {c}?", "What's the capital of {c}?", "Tell me the capital of {c}.", "Which city is the capital of {c}?", "Name the capital of {c}.", "The capital of {c}?", "Capital of {c}?", "Do you know the capital of {c}?", "What city is the capital of {c}?", "Give me the capital of {c}.", "Can you tell me the capital of {c}?", "I want to know the capital of {c}.", "what is {c}'s capital?", "Please name {c}'s capital.", "Name {c}'s capital.", "Do you know what the capital of {c} is?", "What is the capital city called in {c}?", "Which city is {c}'s capital?", "What would you say is the capital of {c}?"],
            ["Could you tell me what the capital of {c} is?", "What is the capital city of {c}?", "Please tell me {c}'s capital."],
        ).format(c=country)
        return Turn(user, f"The user asks for the capital of {country}. It is {city}.", f"The capital of {country} is {city}.")

    def capital_of(self):
        country = self.pick(list(facts.CAPITALS))
        city = facts.CAPITALS[country]
        user = self.phrase(
            ["Which country has {c} as its capital?", "{c} is the capital of which country?", "Of which country is {c} the capital?", "What country is {c} the capital of?", "{c} is the capital of what country?", "Whose capital is {c}?", "Name the country whose capital is {c}.", "{c} is the capital of", "Which country's capital is {c}?"],
            ["What is the country whose capital is {c}?", "Tell me which country {c} is the capital of."],
        ).format(c=city)
        return Turn(user, f"The user asks which country has the capital {city}. It is {country}.", f"{city} is the capital of {country}.")

    def yes_no(self):
        country = self.pick(list(facts.CAPITALS)) if self.r.random() < 0.9 else "France"
        city = facts.CAPITALS[country]
        asked = city
        if self.r.random() < 0.5:
            while asked == city:
                asked = self.pick(facts.CITIES) if self.r.random() < 0.15 else self.pick(list(facts.CAPITALS.values()))
        right = asked == city
        question = self.phrase(
            ["Is the capital of {k} {c}?", "Is {c} the capital of {k}?", "Is {c} {k}'s capital?", "{c} is the capital of {k}, right?", "Is it true that {c} is the capital of {k}?", "Is {c} the capital city of {k}?", "Is {k}'s capital {c}?", "Is the capital city of {k} {c}?", "Is the capital of {k} called {c}?", "Would you say {c} is the capital of {k}?"],
            ["Is it correct that {c} is the capital of {k}?", "Do you think the capital of {k} is {c}?"],
        ).format(k=country, c=asked)
        verdict = "So the answer is Yes." if right else f"It is not {asked}. So the answer is No."
        thought = f"The user asks if {asked} is the capital of {country}. The capital of {country} is {city}. {verdict}"
        if self.r.random() < 0.6:
            question += self.pick([" Answer Yes or No.", " Answer Yes or No.", " Yes or no?", " Answer yes or no.", " Reply with Yes or No.", " Answer only Yes or No.", " Reply only with yes or no.", " Answer with yes or no."])
            return Turn(question, thought, "Yes" if right else "No")
        return Turn(question, thought, f"Yes, the capital of {country} is {city}." if right else f"No, the capital of {country} is {city}.")

    def sum(self):
        while True:
            high = self.pick([9, 9, 20, 20, 50, 99])
            a, b = self.r.randint(0, high), self.r.randint(0, high)
            if self.r.random() < 0.2:
                b = self.r.randint(0, 9)
            kept = max(a, b) > 9 and (a * 7 + b * 13) % 20 == 0
            if kept == self.held_out:
                break
        user = self.pick(["What is {a} + {b}?", "What is {a}+{b}?", "What's {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} = ?", "{a}+{b}=", "What is {a} plus {b}?", "Calculate {a} + {b}.", "Add {a} and {b}.", "How much is {a} + {b}?", "How much is {a} plus {b}?", "What is the sum of {a} and {b}?", "Compute {a} + {b}.", "Please add {a} and {b}.", "{a} plus {b}?", "Tell me {a} + {b}."]).format(a=a, b=b)
        ones, tens = a % 10 + b % 10, a // 10 + b // 10
        steps = f"{a % 10} + {b % 10} = {ones}."
        if a > 9 or b > 9:
            steps += f" {a // 10} + {b // 10}" + (f" + 1 = {tens + 1}." if ones > 9 else f" = {tens}.")
        return Turn(user, f"I add {a} and {b}. {steps} The sum is {a + b}.", f"{a} + {b} = {a + b}.")

    def difference(self):
        b = self.r.randint(0, 12)
        a = b + self.r.randint(0, 12)
        user = self.pick(["What is {a} - {b}?", "What is {a}-{b}?", "{a} - {b}", "What is {a} minus {b}?", "Calculate {a} - {b}.", "How much is {a} minus {b}?", "Subtract {b} from {a}."]).format(a=a, b=b)
        return Turn(user, f"I take {b} from {a}. That is {a - b}.", f"{a} - {b} = {a - b}.")

    def product(self):
        a, b = self.r.randint(0, 10), self.r.randint(0, 10)
        user = self.pick(["What is {a} * {b}?", "What is {a} times {b}?", "{a} x {b}", "{a} * {b}", "Multiply {a} by {b}.", "What is {a} x {b}?", "How much is {a} times {b}?"]).format(a=a, b=b)
        return Turn(user, f"I multiply {a} by {b}. That is {a * b}.", f"{a} * {b} = {a * b}.")

    def count(self):
        low, high = 1, self.pick([3, 5, 5, 10, 10, 10, 20, 20, self.r.randint(2, 30), self.r.choice([30, 40, 50])])
        if self.r.random() < 0.3:
            low = self.r.randint(0, 20)
            high = low + self.r.randint(2, 10)
        templates = ["Count from {a} to {b}.", "List the numbers from {a} to {b}.", "Write the numbers from {a} to {b}.", "Count up from {a} to {b}.", "Give me the numbers {a} to {b}.", "Please count from {a} to {b}.", "Say the numbers from {a} to {b}.", "Count from {a} to {b}, separated by commas."]
        if low == 1:
            templates += ["Count to {b}.", "Please count to {b}.", "Can you count to {b}?"]
        return Turn(self.pick(templates).format(a=low, b=high), f"The user wants the numbers from {low} to {high}.", ", ".join(map(str, range(low, high + 1))))

    def colour_of(self):
        thing = self.pick(list(facts.COLOUR_OF))
        colour = facts.COLOUR_OF[thing]
        user = self.phrase(
            ["What colour is {t}?", "What color is {t}?", "Which colour does {t} have?", "Tell me the color of {t}.", "What is the color of {t}?", "What is the colour of {t}?", "Which color is {t}?", "Tell me what colour {t} is.", "What color does {t} usually have?"],
            ["Do you know what colour {t} is?", "What color does {t} have?"],
        ).format(t=thing)
        return Turn(user, f"The user asks for the colour of {thing}. It is {colour}.", f"{thing[0].upper() + thing[1:]} is {colour}.")

    def opposite(self):
        a, b = self.r.sample(self.pick(facts.OPPOSITES), 2)
        user = self.phrase(
            ["What is the opposite of {a}?", "What's the opposite of {a}?", "Opposite of {a}?", "Give me the opposite of {a}.", "Tell me the opposite of {a}.", "Name the opposite of \"{a}\".", "What is the opposite of \"{a}\"?"],
            ["Which word is the opposite of {a}?", "Please give the opposite of {a}."],
        ).format(a=a)
        return Turn(user, f"The user asks for the opposite of {a}. It is {b}.", f"The opposite of {a} is {b}.")

    def animal(self):
        animal = self.pick(list(facts.ANIMAL_SOUNDS))
        sound = facts.ANIMAL_SOUNDS[animal]
        user = self.phrase(["What does a {a} say?", "What sound does a {a} make?", "Which sound does a {a} make?", "What noise does a {a} make?", "Tell me the sound of a {a}.", "Tell me what a {a} says.", "Name the sound of a {a}."], ["Tell me what sound a {a} makes.", "How does a {a} sound?"]).format(a=animal)
        return Turn(user, f"The user asks for the sound of a {animal}. It is {sound}.", f"A {animal} says {sound}.")

    def calendar(self):
        ring = self.pick([facts.DAYS, facts.DAYS, facts.MONTHS])
        n = self.r.randrange(len(ring))
        noun = "day" if ring is facts.DAYS else "month"
        after = self.r.random() < 0.6
        other = ring[(n + (1 if after else -1)) % len(ring)]
        word = "after" if after else "before"
        user = self.pick(["Which {n} comes {w} {d}?", "What {n} comes {w} {d}?", "What {n} is {w} {d}?", "Which {n} is {w} {d}?"]).format(n=noun, w=word, d=ring[n])
        if self.r.random() < 0.15:
            user = self.pick(["List the {n}s of the {p}.", "Name the {n}s of the {p}.", "What are the {n}s of the {p}?"]).format(n=noun, p="week" if noun == "day" else "year")
            return Turn(user, f"The user wants the {noun}s in order.", ", ".join(ring) + ".")
        return Turn(user, f"The user asks for the {noun} {word} {ring[n]}. It is {other}.", f"{other} comes {word} {ring[n]}.")

    def echo(self):
        shape = self.r.random()
        if shape < 0.5:
            text = self.words(self.r.randint(1, 4))
        elif shape < 0.7:
            text = self.pick(["Hello, world!", "hello", "Hello!", "hi", "yes", "no", "OK", "ok", "this is a test", "This is a test.", "this is a test!", "hello world", "Good morning!", "pong", "PONG", "test", "I am here.", "One two three", "abc", "done", "Thank you.", "ready", "banana", "Hello there"])
        elif shape < 0.85:
            text = "".join(self.pick(string.ascii_letters + string.digits) for _ in range(self.r.randint(2, 6)))
        else:
            text = str(self.r.randint(0, 10 ** self.r.randint(1, 5)))
        if self.r.random() < 0.15:
            text = text.capitalize() + "."
        user = self.phrase(
            ["Say {t}", "Say {t}", "Say: {t}", "Say \"{t}\"", "Say '{t}'", "Repeat after me: {t}", "Repeat: {t}", "Echo: {t}", "Please say {t}", "Repeat this: {t}", "Write {t}", "Write: {t}", "Please repeat: {t}", "Reply with {t}", "Reply with: {t}", "Reply with exactly: {t}", "Reply with the word {t}", "Answer with {t}", "Just say {t}", "Say only {t}", "Say the word {t}", "Repeat the following: {t}", "Respond with {t}", "Copy: {t}", "Copy this text: {t}", "Answer with: {t}", "Repeat exactly: {t}", "Copy {t}", "Repeat \"{t}\"", "Output {t}", "Print {t}", "Type {t}", "Echo {t}", "say {t}", "Say exactly: {t}", "Reply with exactly {t}"],
            ["Can you say {t}", "Copy this: {t}", "Respond with: {t}"],
        ).format(t=text)
        return Turn(user, f"The user wants me to say: {text}", text)

    def greeting(self):
        user = self.pick("Hello|Hello!|Hi|Hi!|Hi there|Hi there!|Hey|Hey!|Hello there!|Good morning|Good morning!|Good evening!|Good day|Good afternoon!|hello|hi|hey|Greetings!|Hello, how are you?|How are you?|How are you doing?|Hi, how are you?|What's up?|Hello, world!|Hello world|ping|test|Test|Testing".split("|"))
        if "how are" in user.lower() or "up?" in user:
            return Turn(user, "The user asks how I am.", "I am fine, thank you. How can I help you?")
        return Turn(user, "The user greets me.", "Hello! How can I help you?")

    def courtesy(self):
        if self.r.random() < 0.5:
            return Turn(self.pick(["Thank you!", "Thanks!", "Thanks", "Thank you very much.", "Thanks a lot!", "thank you", "Great, thanks!", "Good job!", "Very good.", "Well done!"]), "The user thanks me.", "You are welcome!")
        return Turn(self.pick(["Goodbye!", "Bye!", "Bye", "See you later!", "Good night!", "goodbye", "See you!"]), "The user says goodbye.", "Goodbye!")

    def identity(self):
        kind = self.r.randrange(4)
        if kind == 0:
            return Turn(self.pick(["Who are you?", "What are you?", "What is your name?", "What's your name?", "Tell me about yourself.", "Introduce yourself.", "Are you ChatGPT?", "Which model are you?", "What model are you?", "who are you", "Are you a human?", "Are you an AI?", "Are you a robot?", "Do you have a name?"]), "The user asks who I am.", "I am the mlxserve demo model, a very small language model.")
        if kind == 1:
            return Turn(self.pick(["What can you do?", "How can you help me?", "What do you know?", "Help", "Help me.", "Can you help me?", "What are you good at?", "help"]), "The user asks what I can do.", "I know capitals, small sums, colours and opposites. I can count, remember a name, and call tools for the weather and the time.")
        if kind == 2:
            return Turn(self.pick(["Who made you?", "Who created you?", "Who trained you?", "Where do you come from?", "Who built you?"]), "The user asks who made me.", "I was trained from scratch for the mlxserve tests.")
        return Turn(self.pick(["How big are you?", "How many parameters do you have?", "Are you a large language model?", "How large are you?"]), "The user asks how big I am.", "I am very small: a few million parameters.")

    REMEMBERED = {
        "name": (["My name is {v}.", "Hi, my name is {v}.", "Hello! My name is {v}.", "I am {v}.", "I'm {v}.", "Hello, I am {v}.", "You can call me {v}.", "Please remember that my name is {v}.", "My name is {v}. Please remember it.", "Hi! I'm {v}.", "Remember my name: {v}.", "Hi, I'm {v}. Nice to meet you."], ["Hey there, my name is {v}!", "Call me {v}."],
                 ["What is my name?", "What's my name?", "Do you remember my name?", "Who am I?", "Tell me my name.", "What was my name?", "Can you tell me my name?", "What is my name again?", "Do you know my name?", "How am I called?", "Please say my name.", "Say my name.", "What name did I give you?", "Remind me of my name.", "And what is my name?", "Could you tell me what my name is?"], ["Please tell me what my name is.", "Remind me what my name is."],
                 "Hello, {v}! Nice to meet you.", "Your name is {v}.", "your name"),
        "colour": (["My favourite colour is {v}.", "My favorite color is {v}.", "I like the colour {v} best.", "Remember that my favorite color is {v}."], ["The colour I love most is {v}."],
                   ["What is my favourite colour?", "What is my favorite color?", "Which colour do I like best?", "What's my favorite color?", "Do you remember my favourite colour?"], ["Tell me my favourite colour."],
                   "I will remember that your favourite colour is {v}.", "Your favourite colour is {v}.", "your favourite colour"),
        "city": (["I live in {v}.", "My home is {v}.", "I come from {v}.", "My city is {v}.", "Remember that I live in {v}."], ["My home town is {v}."],
                 ["Where do I live?", "Which city do I live in?", "What city do I live in?", "Do you remember where I live?", "Where am I from?", "In which city do I live?", "Where is my home?", "Tell me where I live."], ["In which city is my home?"],
                 "I will remember that you live in {v}.", "You live in {v}.", "where you live"),
        "number": (["My lucky number is {v}.", "Remember the number {v}.", "Please remember the number {v}.", "The secret number is {v}.", "My favourite number is {v}."], ["Keep in mind the number {v}."],
                   ["What is my lucky number?", "What number did I tell you?", "Which number did I ask you to remember?", "What is the number?", "What was the number?", "What is the secret number?", "What is my favourite number?"], ["Tell me the number again."],
                   "I will remember the number {v}.", "The number is {v}.", "the number"),
        "word": (["Remember the word {v}.", "The secret word is {v}.", "The password is {v}.", "Please remember this word: {v}.", "The code word is {v}."], ["Keep in mind the word {v}."],
                 ["What is the secret word?", "What was the word?", "Which word did I tell you?", "What is the password?", "What is the word?", "What is the code word?"], ["Tell me the word again."],
                 "I will remember the word {v}.", "The word is {v}.", "the word"),
    }

    def fact_value(self, key):
        return {"name": self.name, "colour": lambda: self.pick(facts.COLOURS), "city": self.city, "number": lambda: str(self.r.randint(1, 10 ** self.r.randint(1, 4))), "word": self.common_word}[key]()

    def tell(self, key=None):
        key = key or self.pick(["name"] * 6 + ["colour", "city", "number", "word"])
        seen, unseen, _, _, reply, _, label = self.REMEMBERED[key]
        value = self.fact_value(key)
        self.known[key] = value
        thought = f"The user tells me {label.replace('your', 'their').replace('you', 'they')}: {value}."
        return Turn(self.phrase(seen, unseen).format(v=value), thought, reply.format(v=value))

    def recall(self, key=None):
        if key is None:
            key = self.pick(list(self.known)) if self.known and self.r.random() < 0.9 else self.pick(list(self.REMEMBERED))
        _, _, seen, unseen, _, answer, label = self.REMEMBERED[key]
        user = self.phrase(seen, unseen)
        if key not in self.known:
            return Turn(user, f"The user has not told me {label.replace('your', 'their').replace('you', 'they')}.", f"I do not know {label}. You have not told me.")
        value = self.known[key]
        return Turn(user, f"The user told me before: {value}.", answer.format(v=value))

    def unknown(self):
        slots = {key: self.pick(values) for key, values in facts.UNKNOWN_SLOTS.items()}
        slots |= {"noun": self.pick(facts.WORDS + facts.HEROES + facts.THINGS), "word": self.pick(facts.WORDS), "topic2": self.pick(facts.UNKNOWN_SLOTS["topic"]), "year": self.r.randint(1500, 2040), "place": self.pick(list(facts.CAPITALS) + facts.CITIES), "big1": self.r.randint(101, 9999), "big2": self.r.randint(101, 999)}
        templates = facts.UNKNOWN[::7] if self.held_out else [t for n, t in enumerate(facts.UNKNOWN) if n % 7]
        if self.r.random() < 0.15:
            slots["topic"] = slots["noun"] = slots["person"] = slots["work"] = self.words(self.r.randint(1, 2))
        text = self.pick(templates).format(**slots)
        if self.r.random() < 0.06:
            text = self.pick(["The {w} is {a}.", "{w} {x}", "{x}?", "I think the {w} is {a}.", "Why {x}?", "{x} {x}.", "Do you like {w}?"]).format(w=self.pick(facts.WORDS), a=self.pick(facts.ADJECTIVES), x=self.words(2))
        return Turn(text, "I do not know this.", NO_ANSWER)

    def no_tool(self):
        if self.r.random() < 0.6:
            return Turn(self.weather_question(self.city()), "The user asks for the weather. I have no tool for that.", NO_WEATHER)
        return Turn(self.time_question(self.city()), "The user asks for the time. I have no tool for that.", NO_TIME)

    def sentence(self):
        topic = self.pick(facts.TOPICS)
        user = self.pick(["Write one sentence about the {t}.", "Write a sentence about the {t}.", "Give me one sentence about the {t}.", "Write one short sentence about the {t}.", "Say something about the {t}.", "Write one sentence about {a}.", "Tell me one sentence about the {t}."]).format(t=topic, a=article(topic))
        return Turn(user, f"The user wants one sentence about the {topic}.", f"The {topic} is beautiful, and many people like to look at it.")

    def poem(self):
        topic = self.pick(facts.TOPICS)
        user = self.pick(["Write a poem about the {t}.", "Write a short poem about the {t}.", "Write a poem about {a}.", "Write a haiku about the {t}.", "Can you write a poem about the {t}?"]).format(t=topic, a=article(topic))
        if self.r.random() < 0.2:
            topic, user = "moon", self.pick(["Write a poem.", "Write me a poem.", "Tell me a poem.", "Write a short poem."])
        return Turn(user, f"The user wants a poem about the {topic}.", f"The {topic} is near, the {topic} is far,\nit shines below a little star.\nThe {topic} is old, the {topic} is new,\nI wrote this little poem for you.")

    def story_text(self, hero, place, thing):
        return (
            f"Once upon a time there was a {hero} who lived near the {place}. Every morning the {hero} went for a walk. "
            f"One day the {hero} found {article(thing)} under a tree. \"What is this?\" said the {hero}. The {thing} was old and it was very heavy. "
            f"The {hero} carried the {thing} home and showed it to a friend. \"This {thing} belongs to the queen,\" said the friend. "
            f"So the {hero} walked for three days and three nights to bring it back. The queen was happy and gave the {hero} a warm bed and a big cake. "
            f"Then the {hero} went home to the {place} and slept well. The end."
        )

    def story(self):
        hero, place, thing = "fox", "forest", "key"
        user = self.pick(["Tell me a story.", "Write a story.", "Tell me a short story.", "Write a short story.", "Tell a story.", "Can you tell me a story?", "Write a long story.", "Tell me a long story.", "Write a story for me.", "Write me a story."])
        if self.r.random() < 0.6:
            hero = self.pick(facts.HEROES)
            user = self.pick(["Tell me a story about {a}.", "Write a story about {a}.", "Write a short story about {a}.", "Tell me a short story about {a}.", "Write a long story about {a}."]).format(a=article(hero))
        return Turn(user, f"The user wants a story about {article(hero)}.", self.story_text(hero, place, thing))

    def json_object(self):
        values = {"name": self.pick(facts.NAMES), "age": self.r.randint(1, 99), "city": self.pick(list(facts.CAPITALS.values())), "color": self.pick(facts.COLOURS), "animal": self.pick(facts.HEROES)}
        if self.r.random() < 0.5:
            values["name"] = self.name()
        if self.r.random() < 0.5:
            defaults = {"name": "Alice", "age": 30, "city": "Paris", "color": "blue", "animal": "cat"}
            keys = self.r.sample(list(defaults), self.r.randint(1, 3))
            listed = keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + " and " + keys[-1]
            user = self.pick(["Reply with a JSON object with {k}.", "Give me a JSON object with the keys {k}.", "Write a JSON object with {k}.", "Return JSON with {k}.", "Output a JSON object with the fields {k}.", "Make a JSON object with {k}.", "Generate a JSON object with {k}."]).format(k=listed)
            return Turn(user, f"The user wants a JSON object with {listed}.", json.dumps({k: defaults[k] for k in keys}))
        keys = self.pick([["name", "age"], ["name", "age"], ["name", "city"], ["name", "age", "city"], ["name", "color"]])
        parts = {"name": "My name is {}", "age": "I am {} years old", "city": "I live in {}", "color": "I like {}"}
        text = ", ".join(parts[k].format(values[k]) for k in keys) + "."
        if keys == ["name", "age"] and self.r.random() < 0.5:
            text = f"{values['name']} is {values['age']} years old."
        if text.startswith("My name"):
            self.known["name"] = values["name"]
        listed = ", ".join(keys[:-1]) + " and " + keys[-1]
        user = self.pick(["{x} Reply in JSON with {k}.", "{x} Write this as JSON.", "Extract {k} as JSON: {x}", "{x} Give me JSON with {k}.", "Convert to JSON: {x}", "Extract the information as JSON: {x}", "Extract the {k}: {x}"]).format(x=text, k=listed)
        return Turn(user, f"The user wants JSON with {listed}.", json.dumps({k: values[k] for k in keys}, ensure_ascii=False))

    # Tools

    def weather_question(self, city):
        return self.phrase(
            ["What is the weather in {c}?", "What's the weather in {c}?", "What is the weather like in {c}?", "What's the weather like in {c} today?", "How is the weather in {c}?", "Tell me the weather in {c}.", "Weather in {c}?", "What is the weather in {c} today?", "Is it raining in {c}?", "How warm is it in {c}?", "What is the temperature in {c}?", "Please check the weather in {c}.", "Can you tell me the weather in {c}?", "I am in {c}. What is the weather?", "What's the weather like in {c}?", "What is the current weather in {c}?", "Get the weather in {c}.", "Get the weather for {c}.", "weather {c}", "Is it sunny in {c}?", "Is it cold in {c} right now?", "How hot is it in {c}?", "What's the weather in {c} right now?", "Use the tool to get the weather in {c}.", "Look up the weather in {c}.", "Find the weather for {c}.", "I want to know the weather in {c}.", "Check the weather for {c}.", "Show me the weather in {c}."],
            ["I would like to know the weather in {c}.", "Look up the weather for {c}.", "Could you check what the weather is in {c}?"],
        ).format(c=city)

    def time_question(self, city):
        return self.phrase(
            ["What time is it in {c}?", "What is the time in {c}?", "What's the time in {c}?", "Tell me the time in {c}.", "What is the current time in {c}?", "Time in {c}?", "What time is it now in {c}?", "Can you tell me the time in {c}?", "How late is it in {c}?", "What time is it in {c} right now?", "Please check the time in {c}.", "Get the time in {c}.", "Look up the time in {c}.", "Find the time for {c}.", "I want to know the time in {c}.", "Check the time for {c}.", "Show me the time in {c}."],
            ["I would like to know the time in {c}.", "Look up the time for {c}."],
        ).format(c=city)

    def definition(self, name, description, properties, required):
        """A function definition in one of the shapes clients send."""
        parameters = {"type": "object", "properties": properties}
        if properties or self.r.random() < 0.5:
            parameters["required"] = required
        if not required and self.r.random() < 0.5:
            parameters.pop("required", None)
        if self.r.random() < 0.25:
            parameters["additionalProperties"] = False
        if self.r.random() < 0.15:
            parameters = dict(sorted(parameters.items()))
        function = {"name": name, "description": description, "parameters": parameters}
        if self.r.random() < 0.1:
            del function["description"]
        elif self.r.random() < 0.15:
            function = {"description": description, "name": name, "parameters": parameters}
        if self.r.random() < 0.12:
            function["strict"] = True
        tool = {"type": "function", "function": function}
        return dict(reversed(tool.items())) if self.r.random() < 0.05 else tool

    def text_property(self, texts, enum=None):
        prop = {"type": "string"}
        if self.r.random() < 0.55:
            prop["description"] = self.pick(texts)
            if self.r.random() < 0.15:
                prop = {"description": prop["description"], "type": "string"}
        if enum:
            prop["enum"] = enum
        return prop

    def offer_tools(self):
        """Draws the conversation's tools and notes under which name and key each can be called."""
        self.weather = self.time = None
        chosen = self.pick([["w"], ["w"], ["w"], ["t"], ["w", "t"], ["t", "w"], ["w", "o"], ["o", "w"], ["t", "o"], ["o"], ["w", "t", "o"], ["o", "t", "w"]])
        tools = []
        for kind in chosen:
            key = self.pick(["location", "location", "location", "city", "city", "city", "place", "town", "city_name"])
            if len(chosen) > 1 and self.r.random() < 0.5:
                key = self.pick([k for k in ("location", "city", "place") if k != key])
            where = self.text_property(["City name.", "The city", "The city name", "City and country e.g. Bogotá, Colombia", "The city and state, e.g. San Francisco, CA", "The location", "Name of the city", "A city name", "The name of the city, for example Paris"])
            if kind == "w":
                name = self.pick(["get_weather"] * 7 + ["get_current_weather", "weather", "fetch_weather", "lookup_weather"])
                properties, extra = {key: where}, {}
                if self.r.random() < 0.3:
                    unit = self.pick(["unit", "units", "format"])
                    values = self.pick([["celsius", "fahrenheit"], ["celsius", "fahrenheit"], ["c", "f"], ["metric", "imperial"], ["fahrenheit", "celsius"]])
                    properties[unit] = self.text_property(["The unit.", "Temperature unit", "The temperature unit to use", "Units the temperature will be returned in."], values)
                    if self.r.random() < 0.35:
                        extra[unit] = values[0]
                self.weather = (name, key, extra)
                tools.append(self.definition(name, self.pick(["Get current temperature for a given location.", "Get the weather for a city.", "Get the current weather in a given location", "Get the weather in a city", "Returns the weather.", "Look up the current weather.", "Get weather for a city", "The weather in a place", "Get the current weather", "Tells the weather", "Weather report for a location."]), properties, [key, *extra]))
            elif kind == "t":
                name = self.pick(["get_time"] * 7 + ["get_current_time", "current_time", "clock"])
                bare = self.r.random() < 0.15
                key = self.pick([key, key, key, "timezone"])
                self.time = (name, None if bare else key)
                description = self.pick(["Get the current time in a city.", "Get the time.", "Returns the current time.", "Get the current time", "Get the current time for a city", "The time in a place", "Tells the time.", "Get the local time in a given location."])
                tools.append(self.definition(name, description, {} if bare else {key: where}, [] if bare else [key]))
            else:
                name, description, properties = self.pick([
                    ("search", "Search the web.", {"query": {"type": "string"}}), ("send_email", "Send an email.", {"to": {"type": "string"}, "body": {"type": "string"}}),
                    ("get_stock_price", "Get the price of a stock.", {"symbol": {"type": "string"}}), ("add", "Add two numbers.", {"a": {"type": "number"}, "b": {"type": "number"}}),
                    ("roll_dice", "Roll a die.", {}), ("read_file", "Read a file.", {"path": {"type": "string"}}), ("set_alarm", "Set an alarm.", {"time": {"type": "string"}}),
                    ("play_music", "Play a song.", {"title": {"type": "string"}}), ("translate", "Translate a text.", {"text": {"type": "string"}, "language": {"type": "string"}}),
                    ("calculator", "Evaluate an expression.", {"expression": {"type": "string"}}),
                ])
                tools.append(self.definition(name, description, properties, list(properties)))
        self.tools = tools

    def weather_result(self, city):
        condition, degrees = self.pick(facts.WEATHERS), self.r.randint(-10, 40)
        kind = self.r.random()
        if kind < 0.35:
            text = self.pick(["{c}, {d} degrees", "{c} and {d} degrees", "{d} degrees and {c}", "{c}", "{d}", "{d} degrees", "{d}C", "{c}, {d}C", "{d}°C", "{c}, {d}°C", "{d} C", "It is {c}."]).format(c=condition, d=degrees)
            text = text[0].upper() + text[1:] if self.r.random() < 0.3 else text
            return text, text.rstrip(".")
        entries = {}
        if self.r.random() < 0.3:
            entries[self.pick(["location", "city"])] = city
        entries |= {self.pick(["temperature", "temperature", "temp", "temperature_c", "degrees"]): self.pick([degrees, degrees, str(degrees), f"{degrees}°C", degrees + 0.5])}
        if self.r.random() < 0.25:
            entries["unit"] = self.pick(["celsius", "C", "fahrenheit"])
        if self.r.random() < 0.6:
            entries[self.pick(["condition", "condition", "conditions", "description", "forecast", "weather", "sky"])] = condition
        if self.r.random() < 0.15:
            entries["humidity"] = self.r.randint(10, 99)
        said = ", ".join(f"{k} {v}" for k, v in entries.items() if k not in ("location", "city"))
        separators = (",", ":") if self.r.random() < 0.25 else (", ", ": ")
        return json.dumps(entries, ensure_ascii=False, separators=separators), said

    def time_result(self):
        clock = f"{self.r.randint(0, 23):02d}:{self.r.randint(0, 59):02d}"
        if self.r.random() < 0.25:
            clock = f"{self.r.randint(1, 12)}:{self.r.randint(0, 59):02d} {self.pick(['AM', 'PM'])}"
        elif self.r.random() < 0.15:
            clock += f":{self.r.randint(0, 59):02d}"
        return (clock, clock) if self.r.random() < 0.5 else (json.dumps({self.pick(["time", "time", "now", "current_time"]): clock}), clock)

    def call(self):
        """A question that one of the offered tools answers."""
        subject = self.pick([kind for kind in ("weather", "time") if getattr(self, kind)])
        ask = self.weather_question if subject == "weather" else self.time_question
        bare = subject == "time" and self.time[1] is None
        cities = [self.city()] if bare or self.r.random() < 0.9 else [self.city(), self.city()]
        if bare and self.r.random() < 0.7:
            user, cities = self.pick(["What time is it?", "What is the time?", "Tell me the time.", "What time is it now?", "What's the time?"]), ["here"]
        else:
            user = ask(" and ".join(cities))
            if not bare and self.r.random() < 0.03:
                return Turn(self.pick({"weather": ["What is the weather?", "How is the weather today?", "What's the weather like?"], "time": ["What time is it?", "What is the time?"]}[subject]), f"The user asks for the {subject} but names no city.", "For which city?")
        calls, results, said = [], [], []
        for city in cities:
            if subject == "weather":
                name, key, extra = self.weather
                arguments = {key: city} | extra
                result, text = self.weather_result(city)
            else:
                name, key = self.time
                arguments = {} if bare else {key: city}
                result, text = self.time_result()
            calls.append({"type": "function", "function": {"name": name, "arguments": arguments}})
            results.append(result)
            said.append(f"The {subject} {'' if city == 'here' else 'in ' + city}".rstrip() + f": {text}.")
        where = "" if cities == ["here"] else " in " + " and ".join(cities)
        return Turn(user, f"The user asks for the {subject}{where}. I call {name}.", " ".join(said), calls, results, "The tool has answered.")

    # Conversations

    SKILLS = {
        "capital": 12, "capital_of": 6, "yes_no": 34, "sum": 22, "difference": 6, "product": 4, "count": 3, "colour_of": 4, "opposite": 4, "animal": 2, "calendar": 4,
        "echo": 12, "greeting": 3, "courtesy": 1, "identity": 3, "tell": 14, "recall": 3, "unknown": 10, "no_tool": 4, "sentence": 1.5, "poem": 1.5, "story": 2, "json_object": 4,
    }

    def skill(self):
        return getattr(self, self.r.choices(list(self.SKILLS), self.SKILLS.values())[0])()

    def system(self):
        roll = self.r.random()
        if roll < 0.6:
            return None
        if roll > 0.99:
            return self.words(self.r.randint(30, 300)) + "."
        if roll < 0.82:
            return self.pick(["You are a helpful assistant.", "You are a helpful assistant.", "You are a helpful AI assistant.", "You are a friendly assistant.", "Be concise.", "Answer briefly.", "Be helpful and brief.", "You are a test assistant.", "You are a concise assistant. Answer in one sentence."])
        return self.pick(["You are {n}, a helpful {t}.", "You are {a}.", "Always be polite. Today is {d}.", "You work for {n}. Answer questions about {t}.", "Talk like {a}.", "You are an expert in {t}.", "The user is from {c}. Be {j}.", "{s}.", "You are a {j} assistant called {n}. {s}.", "Answer in English. Use {s}.", "You are {a} from {c}. Keep answers {j} and do not lie. {s}.", "Current date: {y}-0{k}-1{k}. {s}."]).format(
            n=self.name(), t=self.pick(facts.UNKNOWN_SLOTS["topic"]), a=article(self.pick(facts.HEROES)), d=self.pick(facts.DAYS), c=self.city(), j=self.pick(facts.ADJECTIVES), s=self.words(self.r.randint(2, 8)).capitalize(), y=self.r.randint(2020, 2030), k=self.r.randint(1, 9))

    def conversation(self):
        """Messages of one to five exchanges, rarely twelve, with tools in about a quarter of them."""
        self.known, self.tools, self.weather, self.time = {}, [], None, None
        thinking = self.r.random() < 0.5
        messages = []
        system = self.system()
        if self.r.random() < 0.04:
            key = self.pick(list(self.REMEMBERED))
            self.known[key] = self.fact_value(key)
            label = self.REMEMBERED[key][6].replace("where you live", "home").replace("your ", "").replace("the ", "")
            system = self.pick(["The user's {l} is {v}.", "The {l} of the user is {v}.", "You are a helpful assistant. The user's {l} is {v}."]).format(l=label, v=self.known[key])
        if system is not None:
            messages.append({"role": "system", "content": system})
        with_tools = self.r.random() < 0.16
        if with_tools:
            self.offer_tools()
        count = self.r.choices([1, 2, 3, 4, 5, 12], [55, 26, 10, 5, 3, 1] if not with_tools else [40, 30, 20, 8, 2, 0.5])[0]
        turns = []
        for n in range(count):
            if with_tools and (self.weather or self.time) and self.r.random() < 0.75:
                turns.append(self.call())
            elif self.known and self.r.random() < 0.65:
                turns.append(self.recall())
            else:
                turn = self.skill()
                while with_tools and (turn.answer == NO_WEATHER and self.weather or turn.answer == NO_TIME and self.time):
                    turn = self.skill()
                turns.append(turn)
        for n, turn in enumerate(turns):
            final = n == count - 1
            messages.append({"role": "user", "content": self.dressed(turn.user) if not turn.answer == turn.user else turn.user})
            reasoned = {"reasoning_content": turn.thought} if final and thinking else {}
            if turn.calls:
                messages.append({"role": "assistant", "content": "", "tool_calls": turn.calls} | reasoned)
                if final and self.r.random() < 0.45:
                    break
                if reasoned and self.r.random() < 0.3:
                    messages[-1].pop("reasoning_content")
                messages += [{"role": "tool", "content": result} for result in turn.results]
                reasoned = {"reasoning_content": turn.thought2} if final and thinking else {}
            messages.append({"role": "assistant", "content": turn.answer} | reasoned)
        return {"messages": messages, "tools": self.tools, "enable_thinking": thinking}

    def document(self):
        """Plain text for the completions endpoint."""
        kind = self.r.randrange(5)
        if kind == 0:
            return self.story().answer
        if kind == 1:
            low = self.r.randint(0, 20)
            return ", ".join(map(str, range(low, low + self.r.randint(5, 20))))
        lines = [self.pick([self.capital, self.capital_of, self.sum, self.colour_of, self.opposite, self.animal, self.calendar, self.capital])().answer for _ in range(self.r.randint(1, 5))]
        return " ".join(lines)

    def copy(self):
        """A line and the same line again: practice in copying words, names and numbers never seen."""
        draw = lambda: self.pick([self.common_word, self.invented, self.city, lambda: str(self.r.randint(0, 9999)), lambda: self.pick(facts.WEATHERS)])()
        line = " ".join(draw() for _ in range(self.r.randint(3, 12)))
        return {"prompt": line + "\n", "text": line + "\n"}

    def item(self):
        roll = self.r.random()
        if roll < 0.06:
            return self.copy()
        return {"text": self.document()} if roll < 0.10 else self.conversation()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("output")
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    writer = Writer(options.seed)
    with open(options.output, "w", encoding="utf-8") as output:
        for _ in range(options.count):
            output.write(json.dumps(writer.item(), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
