"""The terms of a text, the same as those of the worker's tokenizers."""

import re
import unicodedata

UNKNOWN = "[UNK]"
# Written out in a text, they count as the tokens themselves.
SPECIAL = re.compile(r"(\[(?:UNK|SEP|PAD|CLS|MASK)\])")
# Longer words are unknown.
LONGEST_WORD = 100
WORD = re.compile("[a-z0-9]+")


def tokenizer_of(name, vocabulary):
    if name == "alphanumeric":
        if vocabulary is not None:
            raise ValueError("vocabulary: expected none with tokenizer alphanumeric")
        return lambda text: WORD.findall(text.lower())
    if name != "wordpiece":
        raise ValueError(f"tokenizer: expected alphanumeric or wordpiece, got {name!r}")
    if vocabulary is None:
        raise ValueError("vocabulary: required by tokenizer wordpiece: the path of its vocab.txt")
    with open(vocabulary, encoding="utf-8-sig", newline="") as file:
        pieces = {line.removesuffix("\r") for line in file.read().split("\n")}
    if UNKNOWN not in pieces:
        raise ValueError(f"{vocabulary}: expected one word piece per line, among them {UNKNOWN}")
    return wordpiece(pieces)


def wordpiece(vocabulary):
    """The tokenizer of bert-base-uncased over these pieces."""
    longest = max(map(len, vocabulary))

    def tokenize(text):
        tokens = []
        for i, part in enumerate(SPECIAL.split(text)):
            # A split with one group returns the group's matches as every other part.
            if i % 2 == 1 and part in vocabulary:
                tokens.append(part)
                continue
            for word in _words_of(part):
                tokens += _pieces_of(word, vocabulary, longest)
        return tokens

    return tokenize


class _Table(dict):
    """The translation of each character, made once."""

    def __init__(self, make):
        self.make = make

    def __missing__(self, code):
        self[code] = self.make(chr(code))
        return self[code]


def _is_dropped(character):
    return character not in "\t\n\r" and (character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"))


CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def _apart(character):
    if character in "\t\n\r" or unicodedata.category(character)[0] == "Z":
        return " "
    # All of ASCII that is no letter, digit, control character or space counts as punctuation, including `$` and `^`.
    is_ascii = "!" <= character <= "~" and not character.isalnum()
    is_cjk = any(first <= ord(character) <= last for first, last in CJK)
    return f" {character} " if is_ascii or is_cjk or unicodedata.category(character)[0] == "P" else character


_KEPT = _Table(lambda character: None if _is_dropped(character) else character)
_WITHOUT_ACCENTS = _Table(lambda character: None if unicodedata.category(character) == "Mn" else character)
_APART = _Table(_apart)


def _words_of(text):
    bare = unicodedata.normalize("NFD", text.translate(_KEPT)).translate(_WITHOUT_ACCENTS)
    # Letter by letter: at the end of a word it would become a final one.
    return [word for word in bare.replace("Σ", "σ").lower().translate(_APART).split(" ") if word]


def _pieces_of(word, vocabulary, longest):
    if len(word) > LONGEST_WORD:
        return [UNKNOWN]
    pieces = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(min(len(word), start + longest), start, -1):
            piece = prefix + word[start:end]
            if piece in vocabulary:
                break
        else:
            return [UNKNOWN]
        pieces.append(piece)
        start = end
    return pieces
