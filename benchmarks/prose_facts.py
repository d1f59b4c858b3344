"""Plain statements of users and assistants, put together by rules from lists of phrases in five languages."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Phrases:
    """The parts of which the statements in one language consist."""

    who: tuple[str, ...]
    what: tuple[str, ...]
    aims: tuple[str, ...]
    reasons: tuple[str, ...]
    told: str
    """The form of a user's statement."""
    decided: str
    """The form of an assistant's statement: a decision with its reason."""

    def of(self, speaker: str) -> list[str]:
        """Return every statement of a speaker, `user` or `assistant`."""
        if speaker == "user":
            return [self.told.format(*parts) for parts in product(self.who, self.what)]
        return [self.decided.format(*parts) for parts in product(self.aims, self.reasons)]


PHRASES: Mapping[str, Phrases] = {
    "en": Phrases(
        who=(
            "My brother",
            "Our landlady",
            "My aunt in Bergen",
            "The girl next door",
            "My old teacher",
            "Our accountant",
        ),
        what=(
            "plays the cello in a string quartet",
            "breeds pigeons on the roof",
            "sailed around Iceland last summer",
            "runs a small pottery workshop",
            "translates poems from Finnish",
            "broke an ankle while skating",
            "repairs antique clocks in the cellar",
        ),
        aims=(
            "The roof gets slate tiles",
            "We went with the oak staircase",
            "The choir rehearses in the chapel",
            "The orchard becomes a meadow",
            "I settled on the narrow canal boat",
            "The museum borrows the bronze statue",
        ),
        reasons=(
            "because the beams are dry again",
            "because the carpenter is free in spring",
            "since the neighbors complained about the noise",
            "since the frost ruined the plaster",
            "because the council pays half",
            "as the river floods the garden",
        ),
        told="{} {}.",
        decided="{}, {}.",
    ),
    "zh": Phrases(
        who=("我弟弟", "我们的房东", "我在昆明的姑妈", "隔壁的女孩", "我的老邻居", "我们的会计"),
        what=(
            "在弦乐四重奏里拉大提琴",
            "在屋顶上养鸽子",
            "去年夏天坐帆船绕了冰岛一圈",
            "经营一家小陶艺坊",
            "翻译芬兰诗歌",
            "滑冰时摔断了脚踝",
            "在地下室修理古董钟",
        ),
        aims=(
            "屋顶铺石板瓦",
            "楼梯选了橡木的",
            "合唱团在小教堂排练",
            "果园变成草地",
            "我挑了那条窄运河船",
            "博物馆借来铜像",
        ),
        reasons=(
            "因为房梁已经干了",
            "因为木匠春天有空",
            "因为邻居抱怨噪音",
            "因为霜冻毁了灰泥",
            "因为镇上出一半的钱",
            "因为河水会淹花园",
        ),
        told="{}{}。",
        decided="{}，{}。",
    ),
    "de": Phrases(
        who=("Mein Bruder", "Unsere Vermieterin", "Meine Tante aus Bergen", "Der Nachbarsjunge", "Mein Patenkind"),
        what=(
            "spielt Cello in einem Streichquartett",
            "züchtet Tauben auf dem Dach",
            "segelte letzten Sommer um Island",
            "betreibt eine kleine Töpferei",
            "übersetzt finnische Gedichte",
            "repariert alte Uhren im Keller",
        ),
        aims=(
            "Das Dach bekommt Schiefer",
            "Die Treppe wird aus Eiche gebaut",
            "Der Chor probt in der Kapelle",
            "Der Obstgarten wird zur Wiese",
            "Das Museum leiht sich die Bronzefigur",
        ),
        reasons=(
            "weil die Balken wieder trocken sind",
            "weil der Tischler im Frühling Zeit hat",
            "weil die Nachbarn über den Lärm klagten",
            "weil der Frost den Putz zerstörte",
            "weil die Gemeinde die Hälfte bezahlt",
        ),
        told="{} {}.",
        decided="{}, {}.",
    ),
    "ja": Phrases(
        who=("弟は", "うちの大家さんは", "札幌のおばは", "隣の女の子は", "昔の先生は"),
        what=(
            "弦楽四重奏でチェロを弾いています。",
            "屋上で鳩を育てています。",
            "去年の夏にヨットでアイスランドを一周しました。",
            "小さな陶芸教室を開いています。",
            "フィンランドの詩を訳しています。",
            "地下室で古い時計を直しています。",
        ),
        aims=(
            "屋根はスレート葺きになります",
            "階段は樫の木に決まりました",
            "合唱団は礼拝堂で練習します",
            "果樹園は草地になります",
        ),
        reasons=(
            "梁がもう乾いたので、",
            "大工さんが春に空いているので、",
            "霜で漆喰が傷んだので、",
            "川が庭にあふれるので、",
        ),
        told="{}{}",
        decided="{1}{0}。",
    ),
    "ru": Phrases(
        who=("Мой брат", "Наш сосед", "Мой дядя из Бергена", "Мой старый учитель", "Наш бухгалтер"),
        what=(
            "играет на виолончели в квартете",
            "разводит голубей на крыше",
            "прошлым летом обошёл Исландию под парусом",
            "держит маленькую гончарную мастерскую",
            "переводит финские стихи",
            "чинит старинные часы в подвале",
        ),
        aims=(
            "Крышу покроем сланцем",
            "Лестницу сделаем дубовой",
            "Хор репетирует в часовне",
            "Вместо сада будет луг",
            "Музей берёт бронзовую статую",
        ),
        reasons=(
            "потому что балки уже высохли",
            "потому что столяр весной свободен",
            "потому что соседи жаловались на шум",
            "потому что мороз испортил штукатурку",
            "потому что половину платит посёлок",
        ),
        told="{} {}.",
        decided="{}, {}.",
    ),
}
"""By language, the parts of statements. None is a demand, and none holds a digit or a code."""

SPEAKERS = ("user", "assistant")
