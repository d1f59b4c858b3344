"""Frequent words of languages in Latin letters: they tell a text's language, and little about its subject."""

from collections.abc import Mapping

COMMON_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and of you your with please this that it are would should i my to for not have be"
        " is i'm don't from in on at by an as if so we he she was were will can must only never"
        " always do does no or but about",
        "de": "der die das und ist ich nicht ein eine einen dem zu mit für auf sie mir mein meine"
        " meinen meinem bitte im in von bei wenn oder keine kein nie immer nur muss alle bis"
        " mich es ab am",
        "es": "el la los las que de un una y es no me mi por para con se en lo su del al te nunca"
        " siempre solo todo todos ahora desde hay soy tus",
        "fr": "le la les des un une et est je ne pas que de du en pour avec vous mon ma mes ce il qui"
        " au ou par jamais toujours tous toutes moi à on sont",
        "pt": "o a os as que de um uma e é não me meu minha por para com em do da no na ao nunca"
        " sempre só estava todos agora sou nas das",
        "it": "il lo la gli i le che di un una e è non mi mio mia per con in del della al alla mai"
        " sempre solo tutti nelle sono",
        "nl": "de het een en is ik niet van voor met op je mijn dat te zijn in wordt nooit altijd"
        " alleen alle geen aan u ben",
        "pl": "i w na z do się nie jest że to mi mój moja moją za po od dla nigdy zawsze tylko przed wszystkie",
        "tr": "ve bir için bu ile çok ben benim değil var mı da de ki asla her lütfen bütün önce",
        "vi": "tôi là và của cho không một các có này trước bằng bất đừng luôn chỉ phải",
        "id": "yang dan di ke saya untuk dengan ini itu tidak adalah semua hari jangan selalu hanya",
        "sv": "och att det är jag en ett inte på med för av mig min den som till aldrig alltid bara alla",
    }.items()
}
"""By language, frequent short words. They are counted to guess the language of a text."""

_MORE = (
    "am any been being could did does doing done few get got had has hello here hers hi him his how into it's its"
    " just let like me more most much need off ok okay on once other our ours out own s same some such t tell"
    " thank thanks than their them then there these they those too up us very want what when where which while"
    " who whom why yes yet yours"
)
MORE_ENGLISH = frozenset(_MORE.split())
"""Further English words that a search leaves out of a query; too frequent elsewhere to tell a language."""
