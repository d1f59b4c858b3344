"""Find which earlier words of a user a later sentence revises or revokes, so that only what holds is shown alone."""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from unicodedata import normalize

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.checkpoint.text_cache import cached_by_text

from ..conversation.message_marks import is_real_user
from ..text.identifiers import identifiers, identifiers_with_digit
from ..text.quoting import ELLIPSIS, one_line
from .entry import LATER, REVISES, Entry
from .languages import has_cue, languages_of, without_cues, words_of_cues
from .listed_sentences import is_listed
from .rules_and_requests import FIRM, PLAIN, is_question, is_statement, rule_worth, sentences_of, strength_of

_SHOWN, _WAS, _MOST_LATER = 320, 120, 320
"""Maximum number of characters of a revision, of the earlier form that is shown with it, and of the later words that
are shown with a rule."""

_WORTH = 2.5
"""Worth of a revision. It is higher than that of any rule, so that a rule is never shown without its revision."""

_ALIKE, _SAME = 0.33, 0.6
"""Smallest share of the shorter sentence's terms that two sentences must have in common if the later one has a word
that often changes a rule, and if it has no such word but other numbers."""

_TOUCHING = {"touching": 0.5, "alike": 0.6}
"""Smallest share of the shorter sentence's terms that a sentence without such a word has in common with a rule beside
which it is shown: a sentence that sets no rule, and one that sets a rule itself."""

_WITHOUT_CUE = frozenset({*_TOUCHING, "numbers"})
"""Ways to revise a rule without a word that says so. The earlier rule stays in force, because the later sentence may
set a rule of its own, as "Never drop table 2." does after "Never drop table 1."."""

_TOUCHING_WORDS = 3
"""Smallest number of words of such a sentence."""

_NEAR = 8
"""Number of rules with the same term, the newest ones, with which such a sentence is compared."""

_NUMBERED = 2
"""Number of terms in common from which another number in a sentence takes the place of the earlier number."""

_RARE, _RARE_SHARE = 3, 12
"""A term is rare if it occurs in at most `_RARE` sentences, or in at most one of `_RARE_SHARE` sentences. A revision
shares a rare term with what it revises."""

_SYMBOLS, _MOST_SYMBOLS = frozenset("{}[]()=<>_`\\|/*+"), 3
"""Characters of code, and how many of them a revision may have at most."""

_TIED = 0.99
"""An earlier sentence is revised together with the most similar one if it is at least this share as similar."""

_MOST_RULES, _MOST_STATEMENTS, _MOST_JUDGED, _MOST_WITHOUT_CUE = 300, 100, 400, 2_000
"""Maximum number of earlier rules and statements that a sentence is compared with, of sentences that are compared in
one digest, and of sentences without a cue word among them: these limits bound the time."""

_USER, _QUOTED = "user", f'"{ELLIPSIS} '
_SHOWS_USER = frozenset({"Goal", "Rules", "Open", "Said", "Facts"})
"""Sections whose entries may show a user's sentence."""

_SHORTEST, _LONG = 3, 8
_STEM, _LONG_STEM = 4, 5
"""Words of at least `_SHORTEST` characters are compared by their first `_STEM` characters, and words of at least
`_LONG` characters by their first `_LONG_STEM`, so that most endings do not matter."""
_CUE_STEM = 5
"""Number of characters of a cue word from which words that begin with it count as its forms."""

_WORDS = Pattern(r"[^\W_][\w\u0900-\u0dff]*")
_NUMBER = Pattern(r"\d{1,20}|[一二三四五六七八九十百千万两]{1,6}(?=[元块点个天晚人次页年万円])")
_UNSPACED = Pattern(r"[ぁ-ヺー㐀-鿿가-힣\u0e00-\u0e7f]")
_PIECES = Pattern(r"(?=([ァ-ヺー㐀-鿿]{2}|[가-힣]{2}|[\u0e00-\u0e7f]{4}|(?<![㐀-鿿])[㐀-鿿](?=[ぁ-ゖ])))")
_FUNCTION_CHARACTERS = frozenset(
    "我你您他她它们的了是在给请不要会就都也还把被和与或及这那个之前以后说过可能行好再别吧吗呢啊有没上下来去每又"
)


def _folded(word: str) -> str:
    """Return a word without accents."""
    if word[:1] >= "\u0530":
        return word  # only Latin, Greek and Cyrillic letters have accents that are often left out
    return "".join(character for character in normalize("NFD", word) if not "\u0300" <= character <= "\u036f")


_FREQUENT = """
    don isn doesn always never must shall only keep keeps under above over below up instead switch stop please yes
    every each immer nie nur sie siempre nunca solo toujours jamais всегда никогда alle
    the and for with you your our are was were has have had that this what when where which who not but all any can
    will would should could may about from into than then there them they she his her its out over said told tell
    want need like just very more most only also again before after later earlier thought think know way
    der die das und ein eine einen einer den dem des mit für auf von vor aus bei ich mir mich sie ihr wir uns ist
    sind war hat habe haben wird werden wenn was wie als auch noch schon gesagt
    los las una unos que con por para del sus mis les nos está están ser fue hay como pero más dije
    pedí pedido dicho
    les des une est que qui pour avec dans sur par pas plus mon mes vous nous ils elle cela été ont sont dit demandé
    uma dos das com por para que não seu sua meu minha foi são está mais disse pedi
    gli che con per del della delle nel una uno non sono stato mio mia più detto chiesto
    het een van voor met niet dat die mijn zijn wordt nog
    się nie jest jak dla czy żeby przez mnie moje
    что это как для при над под или был была было меня мне мой моя вам вас вы ваш они она его так если уже только
    там тут где кто чтобы говорил сказал просил
"""
_IGNORED = frozenset(map(_folded, _FREQUENT.split()))
"""Frequent words that say nothing about the subject of a sentence."""

_KINDS = {
    word: kind
    for kind, words in {
        "<language>": """
        english german french spanish italian portuguese dutch polish russian chinese japanese korean arabic hindi
        turkish swedish ukrainian vietnamese indonesian englisch deutsch französisch spanisch russisch chinesisch
        inglés alemán francés español italiano portugués chino ruso japonés anglais allemand français espagnol italien
        chinois russe japonais английски немецки французски  английский немецкий французский
        испанский русский китайский 英语 英文 法语 法文 德语 中文 日语 俄语 西班牙语 英語
        フランス語 ドイツ語 日本語 中国語
        """,
        "<call>": "call calls calling phone phones telephone ring rings anrufen rufen rufe ruf anzurufen anruf"
        " telefon appel appeler appelez llame llames llamen llamar llama llamada"
        " llamarme llamarnos llamame llamanos",
        "<mail>": "email emails e-mail e-mails mail mails mailing inbox",
        "<length>": "inch inches centimeter centimeters centimetre centimetres metric imperial feet meters metres",
    }.items()
    for word in map(_folded, words.split())
}
"""Words of the same kind: a rule about one of them may be revised by a sentence about another."""
_UNSPACED_KINDS = tuple(word for word in _KINDS if _UNSPACED.search(word))


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A sentence of a user, or the sentence that an entry of an earlier digest shows."""

    at: int
    text: str
    strength: int
    worth: float
    later: str = ""
    """Later sentences about the same subject, which may change this one."""


def apply_revisions(
    entries: Sequence[Entry],
    old: Sequence[AnyMessage],
    start: int,
    beside: Sequence[AnyMessage] = (),
    *,
    only_cues: bool = False,
    told: Sequence[tuple[str, str]] = (),
) -> list[Entry]:
    """Return the entries with each revision in the place of what it revises, or beside it.

    `old` are the messages that the entries were extracted from, `start` is the position of the first one. A revision
    that speaks of nothing new replaces the earlier form, which remains only as the `key` of its revision, and is
    removed from all other entries. Any other revision may be about another case: the rule stays in force, with the
    later words as its `key` and with `LATER` as its `path`, so that the model sees both. So does a rule of which a
    later sentence speaks without a cue word of a revision, unless `only_cues`. A message in `beside`, which the model
    continues to see, may revise an entry too; the revision gets the last position of `old`.

    `told` are pairs of an earlier sentence and the later one that changes it, as a model named them. Both are shown:
    the earlier sentence stays in force, with the later one as its `key`.
    """
    earlier = (spoken for entry in entries if entry.at < start for spoken in _of_entry(entry))
    known = {entry.key if entry.path == LATER else entry.value for entry in entries if entry.key and entry.at < start}
    conversation = _Conversation(earlier, known, only_cues=only_cues, told=told)
    for index, message in enumerate(old):
        if is_real_user(message):
            conversation.read(message.text, start + index)
    last = max(0, start + len(old) - 1)
    for message in beside:
        if is_real_user(message):
            conversation.read(message.text, last, is_entry=False)
    if not conversation.revisions:
        return list(entries)
    kept = [left for entry in entries if (left := _without(entry, conversation.stale))]
    rules = [entry for entry in kept if entry.section == "Rules"]
    others = [entry for entry in kept if entry.section != "Rules"]
    return [*others, *sorted([*rules, *conversation.revisions], key=lambda entry: entry.at)]


def _of_entry(entry: Entry) -> Iterator[_Spoken]:
    """Yield the sentences of a user that an entry of an earlier digest shows."""
    if entry.section in ("Rules", "Said"):
        strength = strength_of(entry.value) if entry.section == "Rules" else PLAIN
        later = entry.key if entry.path == LATER else ""
        yield _Spoken(entry.at, entry.value, max(strength, FIRM if entry.key else strength), entry.worth, later)
    elif entry.section == "Goal" or (entry.section == "Open" and not entry.path):
        for sentence, strength in sentences_of(entry.value):
            yield _Spoken(entry.at, sentence, strength, rule_worth(sentence, strength))
    elif entry.section == "Facts" and entry.path == _USER:
        yield _Spoken(entry.at, entry.value.strip(_QUOTED), strength_of(entry.value), entry.worth)


class _Conversation:
    """The sentences of users that were read so far, and those among them that a later sentence has revised."""

    def __init__(
        self,
        earlier: Iterable[_Spoken],
        known: Collection[str] = (),
        *,
        only_cues: bool = False,
        told: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.revisions: list[Entry] = []
        self._only_cues, self._told = only_cues, told
        self._known = list(known)
        """Revisions of an earlier digest, which their own messages do not revise again."""
        self.stale = defaultdict[int, list[str]](list)
        """For each message's position, the sentences of it that a revision replaces or contains."""
        self._rules = deque[_Spoken](maxlen=_MOST_RULES)
        self._statements = deque[_Spoken](maxlen=_MOST_STATEMENTS)
        self._frequency = Counter[str]()
        """By term, the number of remembered rules and statements that have it."""
        self._subjects = defaultdict[str, deque[frozenset[str]]](lambda: deque(maxlen=_NEAR))
        """By term, the terms of the newest rules that have it."""
        self._judged = self._without_cue = 0
        self._earlier = iter(earlier)
        self._unread: list[tuple[int, _Judged]] = []
        """Messages whose sentences are not compared yet: most conversations have no sentence that revises others."""

    def read(self, text: str, at: int, *, is_entry: bool = True) -> None:
        """Find the revisions in the sentences of a user's text, then remember those that may be entries."""
        judged = _judged(text)
        if judged.revising:
            self._catch_up()
            fresh = [_Spoken(at, *sentence) for sentence in judged.sentences]
            for place, kind in judged.revising:
                may_judge = self._judged < _MOST_JUDGED and (self._rules or self._statements)
                own = fresh[place].text
                if (
                    may_judge
                    and own not in self.stale.get(at, ())
                    and not self._is_known(own)
                    and self._may_touch(own, kind)
                ):
                    self._judged += 1
                    self._revise(fresh, place, kind)
        for sentence in judged.sentences if self._told else ():
            self._revise_as_told(_Spoken(at, *sentence))
        if is_entry:
            self._unread.append((at, judged))

    def _may_touch(self, text: str, kind: str) -> bool:
        """Whether a sentence has a cue word, or enough terms of a rule to be shown beside it."""
        if kind not in _TOUCHING:
            return True
        self._without_cue += 1
        if self._only_cues or self._without_cue > _MOST_WITHOUT_CUE:
            return False
        terms = _terms(text)
        near = {known for term in terms for known in self._subjects.get(term, ())}
        return any(len(terms & known) >= _TOUCHING[kind] * min(len(terms), len(known)) for known in near)

    def _catch_up(self) -> None:
        """Add the sentences that were read since a sentence was last compared with them."""
        for spoken in self._earlier:
            self._add(spoken)
        for at, judged in self._unread:
            for sentence in judged.sentences:
                if sentence[0] not in self.stale.get(at, ()):  # it stands beside an earlier rule already
                    self._add(_Spoken(at, *sentence))
        self._unread.clear()

    def _is_known(self, text: str) -> bool:
        line = one_line(text, _SHOWN)
        return any(line in value for value in self._known)

    def _add(self, spoken: _Spoken) -> None:
        if not is_question(spoken.text):
            remembered = self._rules if spoken.strength else self._statements
            if len(remembered) == remembered.maxlen:
                self._frequency.subtract(_all_terms(remembered[0]))
            remembered.append(spoken)
            self._frequency.update(_all_terms(spoken))
            if spoken.strength >= FIRM and not self._only_cues:
                for term in (terms := _terms(spoken.text)):
                    self._subjects[term].append(terms)

    def _revise(self, fresh: Sequence[_Spoken], place: int, kind: str) -> None:
        """Note the revision in the sentence at `place`, alone or together with a sentence beside it."""
        parts, targets = self._matched(fresh, place, kind)
        if not targets and not (kind == "revoking" and fresh[place].strength and self._has_firm_rule()):
            return
        text, at = one_line(_joined(parts), _SHOWN), fresh[place].at
        if any(one.text in (text, fresh[place].text) for one in targets):
            return  # a repetition changes nothing
        replaced = [] if kind in _WITHOUT_CUE else [one for one in targets if _replaces(text, one)]
        extended = [one for one in targets if one not in replaced]
        if kind in _WITHOUT_CUE and any(len(one.later) + len(text) >= _MOST_LATER for one in extended):
            return
        self._forget(targets)
        if replaced or not targets:
            was = one_line(replaced[0].text, _WAS) if replaced else REVISES
            worth = max(rule_worth(text, FIRM), *(one.worth for one in [*parts, *replaced])) if replaced else _WORTH
            self.revisions.append(Entry("Rules", at, worth, text, key=was))
            self._add(_Spoken(at, text, FIRM, worth))
        for one in {one.text: one for one in reversed(extended)}.values():
            self._extend(one, text, at)
        for one in [*targets, *parts]:
            self.stale[one.at].append(one.text)

    def _revise_as_told(self, own: _Spoken) -> None:
        """Show a sentence beside the earlier sentences that a model says it changes."""
        earlier = [before for before, after in self._told if is_listed(own.text, [after])]
        if not earlier or own.text in self.stale.get(own.at, ()):
            return
        self._catch_up()
        pool = (one for one in [*self._statements, *self._rules] if (one.at, one.text) != (own.at, own.text))
        targets = [one for one in pool if is_listed(one.text, earlier)]
        self._forget(targets)
        for one in {one.text: one for one in reversed(targets)}.values():
            self._extend(one, one_line(own.text, _SHOWN), own.at)
        for one in [*targets, own] if targets else ():
            self.stale[one.at].append(one.text)

    def _forget(self, gone: Sequence[_Spoken]) -> None:
        """Remove sentences in whose place a revision is remembered."""
        places = {(one.at, one.text) for one in gone}
        self.revisions = [one for one in self.revisions if (one.at, one.value) not in places]
        for remembered in (self._rules, self._statements):
            for one in [one for one in remembered if (one.at, one.text) in places]:
                remembered.remove(one)
                self._frequency.subtract(_all_terms(one))

    def _extend(self, rule: _Spoken, text: str, at: int) -> None:
        """Show later words beside a rule: the newest of them, as many as may be shown."""
        later = f"{rule.later} {text}" if rule.later else text
        later = later if len(later) <= _MOST_LATER else text
        line, strength = one_line(rule.text, _SHOWN), max(FIRM, rule.strength)
        worth = max(rule_worth(line, FIRM), rule.worth)
        self.revisions.append(Entry("Rules", at, worth, line, path=LATER, key=later))
        self._add(_Spoken(at, line, strength, worth, later))

    def _has_firm_rule(self) -> bool:
        return any(rule.strength >= FIRM for rule in self._rules)

    def _matched(self, fresh: Sequence[_Spoken], place: int, kind: str) -> tuple[list[_Spoken], list[_Spoken]]:
        """Return the sentences that make up a revision, and the earlier sentences that it revises."""
        own, after = fresh[place], [one for one in fresh[place + 1 : place + 2] if not is_question(one.text)]
        targets = self._targets(own.text, kind)
        if targets:
            says_no_more = not _terms(own.text) - _terms(targets[0].text)
            return [own, *(after if says_no_more else ())], targets
        before = [one for one in fresh[max(0, place - 1) : place] if not is_question(one.text)]
        for parts in ([own, *after], [*before, own]):
            if kind == "revoking" and len(parts) > 1 and (targets := self._targets(_joined(parts), kind)):
                return parts, targets
        return [own], []

    def _targets(self, text: str, kind: str) -> list[_Spoken]:
        """Return the earlier sentences that a revision is about, the newest of the most similar ones first."""
        terms, most = _terms(text), max(_RARE, (len(self._statements) + len(self._rules)) // _RARE_SHARE)
        rare = {term for term in terms if 0 < self._frequency[term] <= most}
        if not rare:
            return []
        scored: list[tuple[float, int, _Spoken]] = []
        for spoken in (*self._statements, *self._rules):
            shared = terms & (known := _all_terms(spoken))
            if not rare.isdisjoint(shared) and self._may_revise(
                text, spoken, len(shared) / min(len(terms), len(known)), kind
            ):
                scored.append((sum(1 / self._frequency[term] for term in shared), spoken.at, spoken))
        best = max((score for score, _, _ in scored), default=0.0)
        chosen = [one for one in scored if one[0] >= _TIED * best]
        return [spoken for _, _, spoken in sorted(chosen, key=lambda one: -one[1])]

    def _may_revise(self, text: str, spoken: _Spoken, alike: float, kind: str) -> bool:
        if kind in _TOUCHING:
            return spoken.strength >= FIRM and alike >= _TOUCHING[kind]
        if kind == "revoking":
            return bool(spoken.strength) or alike >= _ALIKE
        if kind == "changing":
            return spoken.strength >= FIRM and alike >= _ALIKE
        ours, theirs = set(_NUMBER.findall(text)), set(_NUMBER.findall(spoken.text))
        return spoken.strength >= FIRM and alike >= _SAME and bool(ours and theirs) and not ours & theirs


def _all_terms(spoken: _Spoken) -> frozenset[str]:
    """Return the terms of a sentence and of the later words that are shown with it."""
    return _terms(spoken.text) | _terms(spoken.later)


def _replaces(text: str, earlier: _Spoken) -> bool:
    """Whether a revision says nothing that is not in the earlier sentence too, but for cue words and a number.

    Only then it is certainly about the same case: "You can email my wife" does not revise "Never email me".
    """
    known, about = _terms(earlier.text), _terms(text)
    new = _new_terms(text) - known
    ours, theirs = set(_NUMBER.findall(text)), set(_NUMBER.findall(earlier.text))
    if ours and theirs and len(about & known) >= _NUMBERED:
        new = frozenset(term for term in new if not _NUMBER.search(term))
    return not new and not earlier.later


def _joined(parts: Sequence[_Spoken]) -> str:
    """Return sentences as one text, with a space between them unless the script has none."""
    text = ""
    for one in parts:
        text += f" {one.text}" if text[-1:].isascii() and text else one.text
    return text


@dataclass(frozen=True, slots=True)
class _Judged:
    """The sentences of a user's text, each with its strength and worth as a rule."""

    sentences: tuple[tuple[str, int, float], ...]
    revising: tuple[tuple[int, str], ...]
    """Places of the sentences that may revise others, each with how it may do so."""


@cached_by_text
def _judged(text: str) -> _Judged:
    """Return the sentences of a user's text."""
    found = sentences_of(text)
    kinds = ((place, _kind(sentence, strength)) for place, (sentence, strength) in enumerate(found))
    return _Judged(
        tuple((sentence, strength, rule_worth(sentence, strength)) for sentence, strength in found),
        tuple((place, kind) for place, kind in kinds if kind),
    )


def _kind(text: str, strength: int) -> str:
    """Return how a sentence may revise others; empty if it cannot.

    It has a cue word of a revision (`revoking` or `changing`), or a number that may replace another one (`numbers`),
    or it has neither, but perhaps the subject of a rule: `alike` if it sets a rule itself, otherwise `touching`.
    """
    if text.partition(":")[0].isdigit() or is_question(text) or sum(map(_SYMBOLS.__contains__, text)) > _MOST_SYMBOLS:
        return ""
    if has_cue(text, "revoking"):
        return "revoking"
    if has_cue(text, "adding"):
        return "touching" if strength < FIRM and _may_touch(text) else ""
    if has_cue(text, "changing"):
        return "changing"
    if strength >= FIRM:
        return "numbers" if _NUMBER.search(text) else "alike"
    return "touching" if _may_touch(text) else ""


def _may_touch(text: str) -> bool:
    """Whether a sentence is a statement without a number of an object, which would be a fact."""
    return is_statement(text, _TOUCHING_WORDS) and not identifiers_with_digit(text)


def _without(entry: Entry, stale: Mapping[int, Sequence[str]]) -> Entry | None:
    """Return an entry without the sentences of its message that no longer hold; `None` if nothing is left."""
    if entry.section not in _SHOWS_USER or (entry.section in ("Open", "Facts") and entry.path not in ("", _USER)):
        return entry
    value = entry.value
    for text in stale.get(entry.at, ()):
        line = one_line(text, _SHOWN)
        if value.strip(_QUOTED) in line or (entry.section == "Facts" and _names_no_more(value, line)):
            return None
        value = value.replace(line, ELLIPSIS)
    return replace(entry, value=value) if value != entry.value else entry


def _names_no_more(quotation: str, line: str) -> bool:
    """Whether a quotation has no identifier that is not in the line."""
    return set(identifiers(quotation)) <= set(identifiers(line))


@lru_cache(maxsize=2_048)
def _terms(text: str) -> frozenset[str]:
    """Return the terms that say what a sentence is about: stems, kinds, pairs of Chinese or Japanese characters."""
    return _terms_but(text, ("revoking", "changing", "duty"))


@lru_cache(maxsize=2_048)
def _new_terms(text: str) -> frozenset[str]:
    """Return the terms of a revision without all forms of cue words."""
    return _terms_but(text, ("revoking", "changing", "duty", "limit", "adding", "wish"), _CUE_STEM)


def _terms_but(text: str, kinds: tuple[str, ...], prefix: int = 0) -> frozenset[str]:
    """Return the terms of a sentence but for cue words of these kinds.

    With `prefix`, words that begin with a cue word of at least so many characters are left out too.
    """
    found, (ignored, beginnings) = set[str](), _ignored(languages_of(text), kinds, prefix)
    for word in map(_folded, _WORDS.findall(text.casefold())):
        if word in _KINDS:
            found.add(_KINDS[word])
        elif beginnings and word.startswith(beginnings):
            continue
        elif (len(word) >= _SHORTEST or word.isdigit()) and word not in ignored and not _UNSPACED.search(word):
            found.add(_stem(word))
    plain = without_cues(text, *kinds) if _UNSPACED.search(text) else ""
    for name in _UNSPACED_KINDS:
        if name in plain:
            found.add(_KINDS[name])
            plain = plain.replace(name, " ")
    for piece in _PIECES.findall(plain):
        if not _FUNCTION_CHARACTERS.intersection(piece):
            found.add(piece)
    return frozenset(found)


@lru_cache(maxsize=256)
def _ignored(
    languages: tuple[str, ...], kinds: tuple[str, ...], prefix: int
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the words that `_terms_but` leaves out, and the beginnings of such words."""
    cues = {_folded(word) for language in languages for word in words_of_cues(language, *kinds)}
    return _IGNORED | cues, tuple(sorted(word for word in cues if len(word) >= prefix)) if prefix else ()


def _stem(word: str) -> str:
    return word[: _LONG_STEM if len(word) >= _LONG else _STEM]
