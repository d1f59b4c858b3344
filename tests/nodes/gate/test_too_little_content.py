"""How much a summary must say: acknowledgments are refused in any language, short summaries of one sentence pass."""

from html import escape
from itertools import islice
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes import compact_messages
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import digest
from langgraph_compaction.nodes.gate.reply_checks import not_a_summary
from langgraph_compaction.nodes.gate.too_little_content import is_too_short, units
from langgraph_compaction.nodes.summary.chunks import quoted
from langgraph_compaction.nodes.summary.summarizers import Reply
from langgraph_compaction.nodes.testing import ReplyingSummarizer
from tests.shared_data import shared_data

CONVERSATIONS = {
    "en": (
        "Please move our booking server from Frankfurt to Amsterdam before Friday. The "
        "invoices of 2024 have to stay where they are, and nobody may delete the nightly "
        "backups. I have checked the disks: the archive takes 412 GB. The copy is running, "
        "and the first test was fine. Understood, then go on with the calendars of the "
        "support team."
    ),
    "zh": (
        "请在周五之前把预订服务器从法兰克福迁到阿姆斯特丹。2024"
        "年的发票必须留在原处，任何人都不得删除夜间备份。我检查了磁盘：归档占用 412"
        "GB。复制正在进行，第一次测试正常。好的，接着处理支持团队的日历。"
    ),
    "ru": (
        "Перенеси, пожалуйста, сервер бронирования из Франкфурта в Амстердам до пятницы. "
        "Счета за 2024 год должны остаться на месте, и никто не должен удалять ночные копии. "
        "Я проверил диски: архив занимает 412 ГБ. Копирование идёт, первая проверка прошла "
        "успешно. Хорошо, займись календарями поддержки."
    ),
}

ACKNOWLEDGMENTS = [
    ("en", "Acknowledged."),
    ("en", "Will do."),
    ("en", "Understood, thanks."),
    ("en", "Noted. Moving on as agreed."),
    ("en", "Got it!"),
    ("en", "Consider it done."),
    ("en", "Very well, the work continues."),
    ("zh", "收到。"),
    ("zh", "好的，马上处理。"),
    ("zh", "明白了，稍后继续。"),
    ("zh", "没问题，这就去办。"),
    ("ja", "了解しました。"),
    ("ja", "承知いたしました。すぐに対応いたします。"),
    ("ja", "かしこまりました。"),
    ("ja", "はい、わかりました。そのように進めます。"),
    ("ko", "알겠습니다."),
    ("ko", "네, 바로 처리하겠습니다."),
    ("ko", "확인했습니다. 계속 진행하겠습니다."),
    ("th", "รับทราบครับ"),
    ("th", "เข้าใจแล้ว จะดำเนินการทันที"),
    ("ru", "Понял."),
    ("ru", "Хорошо, сейчас сделаю."),
    ("ru", "Принято, продолжаю работу."),
    ("uk", "Зрозуміло, зроблю."),
    ("es", "Entendido."),
    ("es", "De acuerdo, lo haré enseguida."),
    ("es", "Vale, sigo con ello tan pronto como pueda y aviso cuando termine."),
    ("fr", "Compris."),
    ("fr", "D'accord, je m'en occupe tout de suite."),
    ("fr", "C'est noté, merci."),
    ("de", "Verstanden."),
    ("de", "Alles klar, wird erledigt."),
    ("de", "In Ordnung, ich kümmere mich darum."),
    ("it", "Va bene, procedo subito."),
    ("pt", "Entendido, vou fazer isso agora."),
    ("pt", "Tudo bem."),
    ("nl", "Begrepen, ik ga ermee aan de slag."),
    ("pl", "Zrozumiałem, już się tym zajmuję."),
    ("cs", "Rozumím, hned se do toho dám."),
    ("tr", "Anladım, hemen yapıyorum."),
    ("tr", "Tamam."),
    ("ar", "حسنًا، سأفعل ذلك الآن."),
    ("ar", "تم."),
    ("he", "הבנתי, אעשה זאת."),
    ("hi", "समझ गया, मैं अभी करता हूँ।"),
    ("hi", "ठीक है।"),
    ("vi", "Đã hiểu, tôi sẽ làm ngay."),
    ("id", "Baik, akan saya kerjakan."),
    ("sv", "Uppfattat."),
    ("fi", "Selvä, teen sen heti."),
    ("hu", "Rendben, megcsinálom."),
    ("ro", "Am înțeles, mă ocup imediat."),
    ("el", "Κατάλαβα."),
    ("fa", "متوجه شدم، انجام می‌دهم."),
    ("ka", "გასაგებია, ახლავე გავაკეთებ."),
    ("hy", "Հասկացա։"),
    ("am", "ገባኝ፣ አሁን አደርገዋለሁ።"),
    ("et", "Selge, teen kohe ära."),
    ("bn", "বুঝেছি।"),
    ("sw", "Sawa, nitafanya."),
    ("eu", "Ulertuta, orain egingo dut."),
]

SHORT_SUMMARIES = [
    ("en", "User asked to move the booking server to Amsterdam."),
    ("en", "Server moved; invoices stay."),
    ("en", "The user greeted the assistant and asked for the time in Amsterdam, which was told: 14:05."),
    ("en", "The user wants a server moved and was told that the copy runs."),
    ("zh", "用户要求把服务器迁到阿姆斯特丹，复制进行中。"),
    ("zh", "预订服务器迁移：周五前完成，归档 412 GB。"),
    ("ja", "ユーザーは予約サーバーをアムステルダムへ移すよう依頼し、コピーが進行中。"),
    ("ko", "사용자는 예약 서버를 암스테르담으로 옮기라고 했고 복사가 진행 중이다."),
    ("th", "ผู้ใช้ขอให้ย้ายเซิร์ฟเวอร์จองไปอัมสเตอร์ดัมก่อนวันศุกร์ และกำลังคัดลอกข้อมูลอยู่"),
    ("ru", "Пользователь просил перенести сервер в Амстердам; копирование идёт, 412 ГБ."),
    ("uk", "Користувач просив перенести сервер до Амстердама, копіювання триває, 412 ГБ."),
    ("es", "El usuario pidió mover el servidor a Amsterdam; la copia de 412 GB está en curso."),
    ("fr", "L'utilisateur veut déplacer le serveur de réservation à Amsterdam avant vendredi."),
    ("de", "Der Nutzer will den Server bis Freitag nach Amsterdam umziehen; die Kopie läuft."),
    ("it", "L'utente vuole spostare il server ad Amsterdam entro venerdì; 412 GB copiati."),
    ("pt", "O usuário pediu para mover o servidor para Amsterdam; a cópia está em andamento."),
    ("nl", "De gebruiker wil de server voor vrijdag naar Amsterdam verhuizen; de kopie loopt."),
    ("pl", "Użytkownik chce przenieść serwer do Amsterdamu przed piątkiem; trwa kopiowanie danych."),
    ("tr", "Kullanıcı sunucunun cuma gününe kadar Amsterdam'a taşınmasını istedi; kopyalama sürüyor."),
    ("ar", "طلب المستخدم نقل خادم الحجز من فرانكفورت إلى أمستردام قبل يوم الجمعة والنسخ جارٍ."),
    ("he", "המשתמש ביקש להעביר את שרת ההזמנות לאמסטרדם עד יום שישי, וההעתקה נמשכת (412 GB)."),
    ("hi", "उपयोगकर्ता ने सर्वर को शुक्रवार से पहले एम्स्टर्डम ले जाने को कहा; प्रतिलिपि चल रही है।"),
    ("vi", "Người dùng muốn chuyển máy chủ đặt chỗ sang Amsterdam trước thứ Sáu; đang sao chép."),
    ("id", "Pengguna meminta server pemesanan dipindah ke Amsterdam sebelum Jumat; penyalinan berjalan."),
    ("en", "Okay as a status: the server moves on Friday."),
]


def shown(language: str) -> str:
    """The conversation in this language, else in English, as a summarizer is shown it."""
    text = CONVERSATIONS.get(language, CONVERSATIONS["en"])
    return f'<message role="user">\n{escape(text, quote=False)}\n</message>'


def test_the_tables_are_large_and_mixed() -> None:
    """Forty acknowledgments in a dozen languages, and twenty summaries in as many."""
    assert len(ACKNOWLEDGMENTS) >= 40
    assert len({language for language, _ in ACKNOWLEDGMENTS}) >= 12
    assert len(SHORT_SUMMARIES) >= 20
    assert len({language for language, _ in SHORT_SUMMARIES}) >= 12


@pytest.mark.parametrize(("language", "text"), ACKNOWLEDGMENTS)
def test_an_acknowledgment_is_no_summary(language: str, text: str) -> None:
    """It is refused beside a conversation in English and beside one in its own language."""
    for conversation in {shown("en"), shown(language)}:
        assert not_a_summary(text) or is_too_short(text, conversation)


@pytest.mark.parametrize(("language", "text"), SHORT_SUMMARIES)
def test_one_sentence_may_be_a_summary(language: str, text: str) -> None:
    """Where it carries something of the conversation, or says enough by itself in another language."""
    assert not_a_summary(text) is None
    assert not any(is_too_short(text, conversation) for conversation in {shown("en"), shown(language)})


@pytest.mark.parametrize(
    ("little", "enough"),
    [
        ("Hm.", "Berlin, then Rome."),
        ("Sehr gern.", "Der Server zieht um."),
        ("Okay, the server moves.", "Okay: the server moves."),
        ("Selge, teen kohe ära.", "Server kolib reedeks."),
        (
            "word word word word word word word word word word word",
            "one two three four five six seven eight nine ten",
        ),
    ],
)
def test_little_makes_the_difference(little: str, enough: str) -> None:
    """A minimum of words; a word of acknowledgment is judged by what follows it; repetition adds nothing."""
    conversation = shown("en") + " Berlin Rome"
    assert is_too_short(little, conversation)
    assert not is_too_short(enough, conversation)


def test_a_short_conversation_needs_no_long_summary() -> None:
    """A greeting is summarized in two words, and of codes alone nothing needs to be repeated."""
    assert not is_too_short("Hello said", "hello there, how are you")
    assert not is_too_short("Five codes were named", "AB-1 CD-2 EF-3 GH-4 IJ-5 " * 20)
    assert is_too_short("Understood.", "hello there, how are you")


def test_words_are_counted_in_every_script() -> None:
    """Scripts without spaces between words are counted by characters."""
    assert units("one two three") == 3
    assert units("服务器周五") == 2.5
    assert units("ผู้ใช้ขอให้") == len("ผู้ใช้ขอให้") / 4


@pytest.mark.parametrize("preset", ["selective", "progressive", "recent_rounds", "reserve_tokens", "layered_defence"])
@pytest.mark.parametrize("text", ["Acknowledged.", "Will do.", "Понял.", "了解しました。"])
def test_no_preset_commits_an_acknowledgment(preset: Any, text: str) -> None:
    """The digest is written instead, whatever form the preset asks of a summary."""
    messages: list[AnyMessage] = []
    for number in range(40):
        messages += [HumanMessage(f"{CONVERSATIONS['en']} Part {number}."), AIMessage(f"Part {number} is moved.")]
    summarizer = ReplyingSummarizer(Reply(content=f"<summary>{text}</summary>"))
    result = compact_messages(messages, max_tokens=1_500, preset=preset, summarizer=summarizer, return_result=True)
    assert result.verdict == "degraded_deterministic"
    assert text not in (result.summary or "")


@pytest.mark.parametrize(
    "file", ["tau-bench-airline/gpt-4o-airline-tasks-00-24.json", "pi-session/large-session.jsonl"]
)
def test_digests_of_real_conversations_say_enough(file: str) -> None:
    """What is extracted from a recording would pass as a model's summary of it."""
    for run in islice(read_recordings(shared_data(file)), 8):
        messages = cast("list[AnyMessage]", run.messages)
        text = digest(messages, budget=120, counter=tiktoken_counter()).text
        assert not is_too_short(text, "\n".join(map(quoted, messages)))
