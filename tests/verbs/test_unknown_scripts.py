"""Questions in scripts that the model does not know, and questions without a word."""

import pytest

from space_parts import note, open_space
from treering.models.static_model import StaticEmbedder
from treering.ports.models import has_meaning_to
from treering.testing.fakes import HashingEmbedder

NOTES = {
    "hindi": ["गोदाम की चाबी माली के पास है।", "सोमवार को पंप की जाँच होती है।"],
    "thai": ["กุญแจโกดังอยู่กับคนสวน", "ปั๊มตรวจสอบทุกวันจันทร์"],
    "georgian": ["საწყობის გასაღები მებაღესთან არის.", "ტუმბო ორშაბათს მოწმდება."],
    "tamil": ["கிடங்கு சாவி தோட்டக்காரரிடம் உள்ளது.", "பம்ப் திங்கட்கிழமை சரிபார்க்கப்படுகிறது."],
    "korean": ["창고 열쇠는 정원사가 가지고 있다.", "펌프는 월요일에 점검한다."],
    "russian": ["Ключ от склада у садовника.", "Насос проверяют в понедельник."],
    "chinese": ["仓库钥匙在园丁那里。", "水泵每周一检查。"],
    "japanese": ["倉庫の鍵は庭師が持っている。", "ポンプは月曜日に点検する。"],
    "english": ["The lamp costs 49 euros.", "The fire drill is on Monday."],
}
ANSWERED = {
    "hindi": "गोदाम की चाबी किसके पास है?",
    "thai": "กุญแจโกดังอยู่ที่ไหน",
    "georgian": "სად არის საწყობის გასაღები?",
    "tamil": "கிடங்கு சாவி எங்கே?",
    "korean": "창고 열쇠는 어디에 있나요?",
    "russian": "Где ключ от склада?",
    "chinese": "仓库钥匙在哪里?",
    "japanese": "倉庫の鍵はどこ?",
}
FOREIGN = {
    "hindi": "बिल्ली कहाँ सोती है?",
    "thai": "แมวนอนที่ไหน",
    "georgian": "როგორ მზადდება ღვინო?",
    "tamil": "பூனை எங்கே தூங்குகிறது?",
    "korean": "고양이는 무엇을 먹나요?",
    "russian": "Чем кормят рыбу?",
    "chinese": "猫晚上吃什么?",
    "japanese": "猫は何を食べるか?",
    "hebrew": "מה אוכל החתול?",
    "emoji": "🐟🐟🐟",
    "symbols": "∀x∃y",
    "boxes": "████",
}
NO_QUESTIONS = ["?", "*", '""', "“ ”", "…", "¿?", "—", "。", "* * *"]


@pytest.fixture(scope="module")
def space():
    with open_space(embedder=StaticEmbedder(), channel="user") as opened:
        for language, texts in NOTES.items():
            for number, text in enumerate(texts):
                note(opened, text, origin=f"{language}{number}")
        opened.embed_pending()
        yield opened


def search(space, text, **options):
    return space.query("search", input={"text": text}, options=options)


@pytest.mark.parametrize("semantic", [True, False], ids=["vectors", "words"])
@pytest.mark.parametrize("language", list(ANSWERED))
def test_note_with_the_words_requested_comes_first(space, language, semantic):
    first = search(space, ANSWERED[language], semantic=semantic).hits[0]
    assert first.origin == f"{language}0"
    assert "weak" not in first.flags


@pytest.mark.parametrize("semantic", [True, False], ids=["vectors", "words"])
@pytest.mark.parametrize("language", list(FOREIGN))
def test_foreign_question_is_refused(space, language, semantic):
    report = search(space, FOREIGN[language], semantic=semantic)
    assert all("weak" in hit.flags for hit in report.hits)
    assert report.warnings if report.hits else report.empty.reason == "unknown_entity"
    assert space.query("context", input={"task": FOREIGN[language]}).status == "empty"


@pytest.mark.parametrize("asked", NO_QUESTIONS)
@pytest.mark.parametrize("mode", ["search", "context"])
def test_punctuation_is_no_question(space, mode, asked):
    report = space.query(mode, input={"text" if mode == "search" else "task": asked})
    assert report.status == "empty"
    assert report.empty.hint == "The question has no searchable words."


def test_question_in_english_does_not_find_texts_of_unknown_words(space):
    hits = search(space, "How much is the lamp?").hits
    assert [hit.origin for hit in hits if "weak" not in hit.flags] == ["english0"]


class KnowsLowerCase(HashingEmbedder):
    """An embedder that declares its vocabulary: words in lower case."""

    def knows(self, text):
        return text == text.lower()


def test_given_embedder_may_declare_its_vocabulary():
    with open_space(embedder=KnowsLowerCase(), channel="user") as space:
        note(space, "the pump hums")
        space.embed_pending()
        assert search(space, "the pump hums").trace["arms"]["vectors"] == 1
        assert "vectors" not in search(space, "THE PUMP HUMS").trace["arms"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Where is the key?", True),
        ("Où est la clé de l'entrepôt?", True),
        ("Straße über Größe", True),
        ("5 µm or 10 µm?", True),
        ("Where is 鍵, the key?", True),
        ("", False),
        ("?!", False),
        ("🐟", False),
        ("∑∫√", False),
        ("Где ключ?", False),
        ("API接口返回错误", False),
        ("घोड़ा?", False),
    ],
)
def test_built_in_model_knows_texts_in_latin_script(text, known):
    assert has_meaning_to(StaticEmbedder(), text) == known
