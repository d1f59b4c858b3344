"""Rules that users set and later revise, in seven languages, with a mild and a firm wording of each revision."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Revision:
    """A rule and two sentences of which either revises or revokes the rule."""

    language: str
    rule: str
    soft: str
    """The revision as a person would mention it in passing."""
    firm: str
    """The revision as an order."""


REVISIONS = (
    Revision(
        "en",
        "Never email me about the order.",
        "On reflection email is fine, forget what I said about that.",
        "From now on email me about every order.",
    ),
    Revision(
        "en",
        "Always answer in French.",
        "Actually, you know what, English answers are easier for me.",
        "From now on answer in English.",
    ),
    Revision(
        "en",
        "Keep the hotel under 120 dollars a night.",
        "I've thought about the hotel again, up to 180 dollars a night would be okay.",
        "The new limit for the hotel is 180 dollars a night.",
    ),
    Revision(
        "en",
        "Only book seats by the window.",
        "Come to think of it, I don't mind where I sit, window or not.",
        "Stop booking window seats, take the aisle instead.",
    ),
    Revision(
        "en",
        "Don't call my office before noon.",
        "It turns out the office can be called at any time after all.",
        "Ignore my earlier instruction: you may call the office in the morning.",
    ),
    Revision(
        "en",
        "All measurements must be in inches.",
        "I changed my mind about the measurements, centimetres would be nicer.",
        "Switch the measurements to centimetres.",
    ),
    Revision(
        "zh",
        "不要给我发邮件。",
        "想了想，发邮件其实也可以，之前说的就算了。",
        "从现在起有消息就发邮件给我。",
    ),
    Revision("zh", "所有回答都必须用法语。", "其实回答用英语对我更方便。", "以后回答改用英语。"),
    Revision(
        "zh",
        "酒店每晚不能超过五百元。",
        "我又考虑了一下酒店，每晚八百元以内也行。",
        "酒店的上限改为每晚八百元。",
    ),
    Revision("zh", "只订靠窗的座位。", "算了，座位靠不靠窗都无所谓。", "不用再订靠窗的座位了，改订过道。"),
    Revision(
        "zh",
        "中午之前不要打电话到我办公室。",
        "后来发现办公室电话随时都能打。",
        "忽略我之前的要求，上午可以打办公室电话。",
    ),
    Revision(
        "ja",
        "メールでは連絡しないでください。",
        "やっぱりメールでも構いません、さっきの話は忘れてください。",
        "これからはメールで連絡してください。",
    ),
    Revision(
        "ja",
        "回答は必ずフランス語で書いてください。",
        "よく考えたら、回答は英語のほうが助かります。",
        "今後は回答を英語に変更してください。",
    ),
    Revision(
        "ja",
        "ホテルは一泊一万円以下にしてください。",
        "ホテルの件ですが、考え直して一泊一万五千円まで大丈夫です。",
        "ホテルの上限を一泊一万五千円に変更します。",
    ),
    Revision(
        "ja",
        "窓側の座席だけを予約してください。",
        "座席はもう窓側でなくてもいいです。",
        "窓側の座席はやめて、代わりに通路側を予約してください。",
    ),
    Revision(
        "ja",
        "午前中は事務所に電話しないでください。",
        "実は事務所への電話はいつでも大丈夫でした。",
        "前の指示は取り消します。事務所には午前中に電話してください。",
    ),
    Revision(
        "ru",
        "Никогда не пишите мне на почту.",
        "Если подумать, на почту писать можно, забудьте, что я говорил.",
        "С этого момента пишите мне на почту.",
    ),
    Revision(
        "ru",
        "Всегда отвечайте по-французски.",
        "Вообще-то мне удобнее, если вы отвечаете по-английски.",
        "Теперь отвечайте по-английски.",
    ),
    Revision(
        "ru",
        "Гостиница должна стоить не больше 120 долларов за ночь.",
        "Я ещё подумал про гостиницу, 180 долларов за ночь тоже подойдёт.",
        "Новый предел для гостиницы: 180 долларов за ночь.",
    ),
    Revision(
        "ru",
        "Бронируйте только места у окна.",
        "На самом деле мне уже всё равно, у окна место или нет.",
        "Больше не бронируйте места у окна, вместо этого берите у прохода.",
    ),
    Revision(
        "ru",
        "Не звоните мне в офис до полудня.",
        "Оказалось, что в офис всё-таки можно звонить в любое время.",
        "Отмените моё прежнее указание: звоните в офис утром.",
    ),
    Revision(
        "de",
        "Schreiben Sie mir niemals E-Mails.",
        "Wenn ich es mir recht überlege, sind E-Mails in Ordnung, vergessen Sie, was ich gesagt habe.",
        "Ab jetzt schreiben Sie mir E-Mails.",
    ),
    Revision(
        "de",
        "Antworten Sie immer auf Französisch.",
        "Eigentlich sind mir Antworten auf Englisch lieber.",
        "Von nun an antworten Sie auf Englisch.",
    ),
    Revision(
        "de",
        "Das Hotel darf höchstens 120 Euro pro Nacht kosten.",
        "Ich habe noch einmal über das Hotel nachgedacht, 180 Euro pro Nacht wären auch okay.",
        "Die neue Obergrenze für das Hotel ist 180 Euro pro Nacht.",
    ),
    Revision(
        "de",
        "Buchen Sie nur Plätze am Fenster.",
        "Mir ist inzwischen egal, ob der Platz am Fenster ist.",
        "Buchen Sie keine Plätze am Fenster mehr, sondern stattdessen am Gang.",
    ),
    Revision(
        "de",
        "Rufen Sie vor zwölf Uhr nicht in meinem Büro an.",
        "Das Büro kann man doch jederzeit anrufen, wie sich herausstellt.",
        "Ignorieren Sie meine frühere Anweisung: Sie dürfen vormittags im Büro anrufen.",
    ),
    Revision(
        "es",
        "No me escribas nunca por correo.",
        "Pensándolo bien, el correo está bien, olvida lo que dije.",
        "A partir de ahora escríbeme por correo.",
    ),
    Revision(
        "es",
        "Responde siempre en francés.",
        "En realidad me resulta más cómodo que las respuestas sean en inglés.",
        "Desde ahora responde en inglés.",
    ),
    Revision(
        "es",
        "El hotel debe costar menos de 120 euros por noche.",
        "He vuelto a pensar en el hotel, hasta 180 euros por noche también vale.",
        "El nuevo límite para el hotel es de 180 euros por noche.",
    ),
    Revision(
        "es",
        "Reserva solo asientos de ventanilla.",
        "La verdad es que ya me da igual si el asiento es de ventanilla.",
        "No reserves más asientos de ventanilla, en su lugar toma pasillo.",
    ),
    Revision(
        "es",
        "No llames a mi oficina antes del mediodía.",
        "Al final sí se puede llamar a la oficina a cualquier hora.",
        "Ignora mi instrucción anterior: puedes llamar a la oficina por la mañana.",
    ),
    Revision(
        "fr",
        "Ne m'écrivez jamais par courriel.",
        "Réflexion faite, le courriel me convient, oubliez ce que j'ai dit.",
        "Désormais écrivez-moi par courriel.",
    ),
    Revision(
        "fr",
        "Répondez toujours en allemand.",
        "En fait, des réponses en anglais me seraient plus utiles.",
        "À partir de maintenant répondez en anglais.",
    ),
    Revision(
        "fr",
        "L'hôtel doit coûter moins de 120 euros par nuit.",
        "J'ai repensé à l'hôtel, jusqu'à 180 euros par nuit ça irait aussi.",
        "La nouvelle limite pour l'hôtel est de 180 euros par nuit.",
    ),
    Revision(
        "fr",
        "Réservez uniquement des places côté fenêtre.",
        "Finalement peu importe que la place soit côté fenêtre.",
        "Ne réservez plus de places côté fenêtre, prenez plutôt côté couloir.",
    ),
    Revision(
        "fr",
        "N'appelez pas mon bureau avant midi.",
        "Il s'avère qu'on peut appeler le bureau à toute heure.",
        "Ignorez ma consigne précédente : vous pouvez appeler le bureau le matin.",
    ),
)
"""Rules of five kinds, with their revisions."""
