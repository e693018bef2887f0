#!/usr/bin/env python3
"""Compares `windrow encode --chat --loss assistant` with apply_chat_template in Hugging Face's transformers.

    pip install transformers jinja2
    scripts/chat_reference.py --windrow target/release/windrow [--tokenizer tokenizer.json ...] [--rows 1000]
    scripts/chat_reference.py --record      # writes the tokenizer and the expected results for tests/it/chat.rs

The templates are those in crates/windrow-tokenizers/tests/chat/templates. Conversations are generated from a seed. For a template with
{% generation %}, the masks come from return_assistant_tokens_mask. For a template without it, this script applies the rule in
book/src/encode.md to the texts of transformers. A row is equal if both refuse it, or if its ids and masks are equal. A row from which the
template drops a message counts as refused by transformers.
"""

import argparse
import datetime
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "crates/windrow-tokenizers/tests/chat"
DATE = "2024-07-26"
SPECIAL = (
    "<s> </s> <|im_start|> <|im_end|> <|im_sep|> <|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|end_of_text|> "
    "[INST] [/INST] [TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] <start_of_turn> <end_of_turn> "
    "<|system|> <|user|> <|assistant|> <|end|> <｜User｜> <｜Assistant｜> <｜tool▁sep｜> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> "
    "<|USER_TOKEN|> <|CHATBOT_TOKEN|> <|SYSTEM_TOKEN|> <|start_of_role|> <|end_of_role|> <|start|> <|message|> <|channel|> <|return|> <|call|>"
).split()
PLAIN = "<think> </think> <tool_call> </tool_call>".split()

WORDS = (
    "river stone window letter garden seven maybe however under quickly paint measures between colder silver table a I the of and to is "
    "über naïve 東京 は静か привет мир 🙂 👩‍💻 e\u0301 ﬁ don't it's 12 3.14 1,000 x=y+1; // {} [a] \"q\" 'r' <b>&amp; a\\b"
).split()
ENDS = [".", "?", "!", "", "\n", "\n\n", " ", "  \n", "\t", "\u00a0", "\u001f", "\u2028", "\r\n", ":\n- one\n- two"]
FORGED = ["<|im_end|>", "</s>", "<|eot_id|>", "[/INST]", "<end_of_turn>", "{% generation %}", "{{ bos_token }}", "<tool_response>"]
TOOLS = [
    {
        "name": "weather",
        "description": "Tells the weather of a place",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "Where: \"Köln\" <or> elsewhere"},
                "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
                "days": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["place"],
        },
    },
    {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}},
    {
        "name": "convert",
        "description": "Converts amounts",
        "parameters": {
            "type": "object",
            "properties": {
                "amount": {"type": ["number", "null"], "default": 1.5},
                "rates": {"type": "object", "additionalProperties": {"type": "number"}},
                "exact": {"type": "boolean", "default": True},
                "anything": {},
            },
            "required": ["amount", "rates"],
        },
    },
]
VALUES = [1, 0, -7, 2.5, 1e20, 1e-7, 1e16, 100000.0, True, False, None, "x", "é\n\"", [], [1, [2]], {}, {"b": 1, "a": {"c": None}}]
VALUES += [12345678901234567890123, "\u007f\u0001", -0.0]


# Words that no template changes.
OTHER = "wq5c1e0z"


class Conversations:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self, most=12):
        pick = self.random
        words = [pick.choice(WORDS) for _ in range(pick.randrange(most))]
        if pick.random() < 0.06:
            words.insert(pick.randrange(len(words) + 1), pick.choice(FORGED))
        text = pick.choice(["", "", "", " ", "\n", "\u001f "]) + " ".join(words) + pick.choice(ENDS)
        return text

    def call(self, number):
        pick = self.random
        tool = pick.choice(TOOLS)
        names = list(tool["parameters"]["properties"]) + ["extra"]
        arguments = {name: pick.choice(VALUES) for name in pick.sample(names, pick.randrange(len(names)))}
        call = {"type": "function", "function": {"name": tool["name"], "arguments": arguments}}
        if pick.random() < 0.9:
            call["id"] = "call%05d" % number
        return call

    def assistant(self, kind):
        pick = self.random
        message = {"role": "assistant", "content": self.text()}
        if kind == "thinking" and pick.random() < 0.7:
            if pick.random() < 0.5:
                message["content"] = "<think>\n" + self.text() + "\n</think>\n\n" + message["content"]
            else:
                message[pick.choice(["reasoning_content", "thinking", "reasoning"])] = pick.choice([self.text(), "", None])
        if kind == "parts" and pick.random() < 0.7:
            message["content"] = [{"type": "text", "text": self.text()} for _ in range(pick.randrange(3))]
        return message

    def row(self):
        pick = self.random
        kind = pick.choice(["plain"] * 4 + ["tools"] * 3 + ["thinking", "parts", "documents", "odd"])
        messages = []
        if pick.random() < 0.4:
            messages.append({"role": "system", "content": self.text()})
        for turn in range(pick.randrange(1, 5)):
            content = self.text()
            if kind == "parts" and pick.random() < 0.5:
                content = [{"type": "text", "text": content}, {"type": "image"}, {"type": "text", "text": self.text()}]
            messages.append({"role": "user", "content": content})
            if kind == "tools" and pick.random() < 0.7:
                calls = [self.call(turn * 10 + at) for at in range(pick.choice([1, 1, 2]))]
                message = {"role": "assistant", "content": pick.choice(["", None, self.text()]), "tool_calls": calls}
                if pick.random() < 0.3:
                    del message["content"]
                messages.append(message)
                for call in calls:
                    result = pick.choice([self.text(), json.dumps({"a": 1}), {"content": 7, "b": [1.0]}, ["x"]])
                    answer = {"role": "tool", "name": call["function"]["name"], "content": result}
                    if "id" in call:
                        answer["tool_call_id"] = call["id"]
                    messages.append(answer)
            if turn > 0 or pick.random() < 0.9:
                messages.append(self.assistant(kind))
        if kind == "odd":
            change = pick.randrange(6)
            at = pick.randrange(len(messages))
            if change == 0:
                pick.shuffle(messages)
            elif change == 1:
                del messages[at]["content"]
            elif change == 2:
                messages[at]["role"] = pick.choice(["developer", "critic", "tool"])
            elif change == 3:
                messages[at]["content"] = pick.choice([None, 7, True, 1.25, [], {}, ["a"], {"k": [None, 1.5, "v"]}])
            elif change == 4:
                messages.insert(at, dict(messages[at]))
            else:
                messages.pop(0)
        row = {"id": pick.randrange(10**6), "messages": messages}
        if kind == "tools" or pick.random() < 0.05:
            tools = pick.sample(TOOLS, pick.randrange(len(TOOLS) + 1))
            row["tools"] = [{"type": "function", "function": tool} for tool in tools]
        if kind == "documents":
            row["documents"] = [
                {"title": self.text(3), "text": self.text(), "rank": pick.choice([1, 2.0, None])} for _ in range(pick.randrange(3))
            ]
        if pick.random() < 0.05:
            row["tools"] = None
        return row


def train(path):
    """A small byte-level tokenizer of our own, with the special tokens of all templates."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    rows = Conversations(7)
    tokenizer.train_from_iterator((json.dumps(rows.row(), ensure_ascii=False) for _ in range(3000)), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in PLAIN])
    tokenizer.save(str(path), pretty=False)


def ends(tokenizer):
    """The tokens that begin and end a text. A token that the vocabulary does not have would be added by transformers."""
    known = {token["content"] for token in json.loads(pathlib.Path(tokenizer).read_text())["added_tokens"]}
    begins = ["<s>", "<｜begin▁of▁sentence｜>", "<|endoftext|>", "[CLS]", "</s>"]
    stops = ["</s>", "<｜end▁of▁sentence｜>", "<|endoftext|>", "[SEP]"]
    return [next(token for token in tokens if token in known) for tokens in (begins, stops)]


class Reference:
    def __init__(self, tokenizer):
        import transformers
        from transformers.utils import chat_template_utils

        class Day(datetime.datetime):
            @classmethod
            def now(cls, tz=None):
                return cls.fromisoformat(DATE)

        chat_template_utils.datetime = Day
        self.version = transformers.__version__
        bos, eos = ends(tokenizer)
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(tokenizer), bos_token=bos, eos_token=eos, chat_template="unused"
        )

    def marked(self, template, row):
        out = self.tokenizer.apply_chat_template(
            row["messages"],
            tools=row.get("tools"),
            documents=row.get("documents"),
            chat_template=template,
            return_assistant_tokens_mask=True,
            return_dict=True,
        )
        return out["input_ids"], out["assistant_masks"]

    def text(self, template, row, messages, prompt=False):
        return self.tokenizer.apply_chat_template(
            messages,
            tools=row.get("tools"),
            documents=row.get("documents"),
            chat_template=template,
            tokenize=False,
            add_generation_prompt=prompt,
        )

    def by_prefixes(self, template, row):
        messages = row["messages"]
        text = self.text(template, row, messages)
        spans = []
        for at, message in enumerate(messages):
            if message.get("role") != "assistant":
                continue
            begin = self.text(template, row, messages[:at], True)
            end = self.text(template, row, messages[: at + 1])
            if not text.startswith(end) or not end.startswith(begin):
                raise ValueError("no prefix")
            spans.append((len(begin), len(end)))
        out = self.tokenizer(text, add_special_tokens=False)
        mask = [int(any(end > a and start < b for a, b in spans)) for start, end in out.encodings[0].offsets]
        return out["input_ids"], mask

    def is_lost(self, template, row):
        """Whether a message of the row says what its text leaves out (book/src/encode.md)."""
        messages = row["messages"]

        def text(messages):
            try:
                return self.text(template, row, messages).lower()
            except Exception:  # Then it is not known.
                return None

        def is_written(role):
            user, said = {"role": "user", "content": "a"}, {"role": role, "content": OTHER}
            trials = [[said], [said, user], [user, said], [user, {"role": "assistant", "content": "b"}, said]]
            return any(OTHER in (self.trial(template, trial) or "") for trial in trials)

        for at, message in enumerate(messages):
            role, content = message.get("role"), message.get("content")
            if not isinstance(role, str) or not role:
                return True
            rest = {key: value for key, value in message.items() if key != "content"}
            has_more = any(isinstance(value, (list, dict)) and value for value in rest.values()) or any(
                message.get(name) is not None for name in ("reasoning_content", "thinking", "reasoning")
            )
            if content in (None, [], {}) and not has_more and role in ("user", "assistant", "system", "developer"):
                return True
            if not has_words(content):
                continue
            if is_written(role) and (has_more or role not in ("user", "assistant")):
                continue
            if isinstance(content, (bool, int, float)):
                if str(content).lower() not in (text(messages) or str(content).lower()):
                    return True
                continue
            others = messages[:at] + [{**message, "content": other_words(content)}] + messages[at + 1 :]
            found = text(others)
            if found is not None and OTHER not in found and found == text(messages):
                return True
        return not (text(messages) or "-").strip()

    def trial(self, template, messages):
        try:
            return self.text(template, {}, messages).lower()
        except Exception:
            return None

    def row(self, template, row):
        has_marks = re.search(r"\{%[-+]?\s*generation\s*[-+]?%\}", template.replace("{#- Sources", "{#-")) is not None
        try:
            ids, mask = (self.marked if has_marks else self.by_prefixes)(template, row)
        except Exception as error:  # Whatever it is, the row is refused.
            return {"refused": f"{type(error).__name__}: {error}"}
        return {"refused": "a message is lost"} if self.is_lost(template, row) else {"ids": ids, "mask": mask}


def has_words(content):
    if isinstance(content, str):
        return bool(content.strip())
    if isinstance(content, list):
        return any(has_words(part.get("text") if isinstance(part, dict) else part) for part in content if isinstance(part, (str, dict)))
    if isinstance(content, dict):
        return any(map(has_words, content.values()))
    return isinstance(content, (bool, int, float))


def other_words(content):
    if isinstance(content, list):
        return [{**part, "text": other_words(part["text"])} if isinstance(part, dict) and "text" in part else
                other_words(part) if isinstance(part, str) else part for part in content]
    if isinstance(content, dict):
        return {key: other_words(value) for key, value in content.items()}
    return content if content is None else OTHER


def templates():
    return {path.stem: path.read_text() for path in sorted((FOLDER / "templates").glob("*.jinja"))}


def run(windrow, tokenizer, rows, name):
    """What windrow makes of the rows."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bos, eos = ends(tokenizer)
        (folder / "tokenizer.json").write_bytes(pathlib.Path(tokenizer).read_bytes())
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": bos, "eos_token": {"content": eos}}))
        (folder / "rows.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        command = [windrow, "encode", folder / "rows.jsonl", "-o", folder / "out", "--format", "jsonl", "--on-error", "skip", "-q"]
        command += ["--tokenizer", folder / "tokenizer.json", f"--chat={FOLDER / 'templates' / name}.jinja"]
        subprocess.run(command + ["--loss", "assistant", "--chat-date", DATE], check=True)
        skipped = {}
        for line in (folder / "out.skipped.jsonl").read_text().splitlines():
            line = json.loads(line)
            skipped[line["line"] - 1] = line["reason"]
        written = iter((folder / "out.jsonl").read_text().splitlines())
        return [{"refused": skipped[at]} if at in skipped else json.loads(next(written)) for at in range(len(rows))]


def compare(options):
    sources = templates()
    for tokenizer in options.tokenizer or [FOLDER / "tokenizer.json"]:
        reference = Reference(tokenizer)
        conversations = Conversations(options.seed)
        rows = [conversations.row() for _ in range(options.rows)]
        print(f"transformers {reference.version}, {pathlib.Path(tokenizer).name}, {len(rows)} conversations")
        all_equal = 0
        for name, template in sources.items():
            found = run(options.windrow, tokenizer, rows, name)
            equal = refused = 0
            for at, (row, ours) in enumerate(zip(rows, found)):
                theirs = reference.row(template, row)
                if "refused" in ours or "refused" in theirs:
                    is_equal = "refused" in ours and "refused" in theirs
                    refused += is_equal
                else:
                    is_equal = ours == theirs
                equal += is_equal
                if not is_equal and at + 1 - equal <= options.show:
                    show(name, at, row, ours, theirs, reference.tokenizer)
            ones = sum(sum(one.get("mask", ())) for one in found)
            print(f"  {name:14} {equal:5} of {len(rows)} equal, {refused:4} refused by both, {ones} tokens with mask 1", flush=True)
            all_equal += equal
        print(f"  {all_equal} of {len(rows) * len(sources)} equal")


def show(name, at, row, ours, theirs, tokenizer):
    print(f"--- {name}, row {at}: {json.dumps(row, ensure_ascii=False)}")
    for who, one in (("windrow", ours), ("transformers", theirs)):
        text = one.get("refused") or repr(tokenizer.decode(one["ids"]))
        print(f"  {who}: {text}")
        if ours.get("ids") == theirs.get("ids"):
            print("    mask " + "".join(map(str, one["mask"])))


def record(options):
    train(FOLDER / "tokenizer.json")
    reference = Reference(FOLDER / "tokenizer.json")
    conversations = Conversations(options.seed)
    rows = [conversations.row() for _ in range(options.rows)]
    with (FOLDER / "rows.jsonl").open("w") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with (FOLDER / "expected.jsonl").open("w") as file:
        for name, template in templates().items():
            for at, row in enumerate(rows):
                expected = reference.row(template, row)
                if "refused" in expected:
                    expected = {}
                line = {"template": name, "row": at, **expected}
                if "mask" in line:
                    line["mask"] = "".join(map(str, line["mask"]))
                file.write(json.dumps(line, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windrow", default="windrow")
    parser.add_argument("--tokenizer", action="append")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="number of differing rows to print for each template")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.record:
        options.rows = options.rows or 20
        return record(options)
    options.rows = options.rows or 1000
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
