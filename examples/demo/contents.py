"""What the made documents say: invoices, letters, contracts and minutes, the same every time for the same seed."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

COMPANIES = (
    "Harbour & Sons Ltd",
    "Müller Feinmechanik GmbH",
    "Librería Cervantes S.A.",
    "North Quay Logistics",
    "Padaria Boa Vista Lda",
    "Ostrava Glass Works",
    "Willow Street Dental Practice",
    "Brightwater Housing Association",
)
PEOPLE = (
    "Amelia Carter",
    "Jürgen Weiß",
    "Lucía Fernández",
    "Tomasz Zielinski",
    "João Pereira",
    "Priya Raman",
    "Samuel Okafor",
    "Ingrid Dahl",
)
GOODS = (
    "ball bearing 6204",
    "printer paper A4, 5 boxes",
    "pallet hire, one week",
    "roof inspection",
    "translation, per page",
    "oak shelf 80 cm",
    "annual maintenance",
    "courier delivery",
    "LED panel 60 x 60",
    "first aid training",
)
TOWNS = ("Bristol", "Freiburg", "Sevilla", "Rotterdam", "Coimbra", "Ostrava", "Gdynia", "Cork")

CLAUSES = (
    "The supplier delivers the goods named in the annex within ten working days of each written order.",
    "Prices stay fixed for twelve months and are reviewed by both parties every January thereafter.",
    "Either party may end this agreement with three months' notice to the end of a calendar quarter.",
    "Payment is due within thirty days of the invoice; later payments carry interest of four per cent a year.",
    "Both parties keep what they learn about the other's business to themselves, also after the agreement has ended.",
    "Damage in transit must be reported in writing within five days, together with photographs of the packaging.",
    "Neither party is liable for delays caused by strikes, floods or decisions of a public authority.",
    "Changes to this agreement are valid only in writing and with the signatures of both parties.",
    "The courts at the customer's registered office decide on any dispute that cannot be settled in good faith.",
    "The customer may inspect the warehouse once a year after giving two weeks' notice.",
)
AGENDA = (
    "The minutes of the last meeting were read and accepted without changes.",
    "The roof over the east wing leaks again; two offers for the repair were compared and the cheaper one accepted.",
    "Membership grew by eleven households, most of them from the new estate beside the canal.",
    "The treasurer reported a small surplus and proposed to keep it for the heating of the hall.",
    "It was agreed to move the summer fair to the second weekend of July because of the road works.",
    "The question of the bicycle shed was put off until the council has answered our letter.",
    "Volunteers are needed for the library on Thursday afternoons; a notice will be put up.",
    "The insurance has paid for the broken window, less the excess of two hundred.",
)
LETTERS = {
    "en": (
        "Thank you for your letter of last week, which reached us on Tuesday together with the samples.",
        "We have looked into the matter carefully and would like to offer you a replacement free of charge.",
        "Our driver will call on you in the coming days to arrange a time that suits you.",
        "Please let us know whether the enclosed drawings agree with what you had in mind.",
        "We regret the trouble this has caused and hope to keep you as a customer for many years.",
        "Should you have any questions, you can reach our office every weekday between nine and five.",
    ),
    "de": (
        "vielen Dank für Ihr Schreiben der vergangenen Woche, das uns zusammen mit den Mustern erreicht hat.",
        "Wir haben die Angelegenheit sorgfältig geprüft und möchten Ihnen kostenlosen Ersatz anbieten.",
        "Unser Fahrer wird sich in den nächsten Tagen bei Ihnen melden, um einen Termin zu vereinbaren.",
        "Bitte teilen Sie uns mit, ob die beigefügten Zeichnungen Ihren Vorstellungen entsprechen.",
        "Wir bedauern die Unannehmlichkeiten und hoffen, Sie noch viele Jahre als Kunden behalten zu dürfen.",
        "Bei Fragen erreichen Sie unser Büro an jedem Werktag zwischen neun und siebzehn Uhr.",
    ),
    "es": (
        "Le agradecemos su carta de la semana pasada, que recibimos el martes junto con las muestras.",
        "Hemos estudiado el asunto con detenimiento y queremos ofrecerle una sustitución sin ningún coste.",
        "Nuestro conductor se pondrá en contacto con usted en los próximos días para fijar una hora conveniente.",
        "Le rogamos que nos indique si los planos adjuntos corresponden a lo que usted tenía pensado.",
        "Lamentamos las molestias causadas y esperamos seguir contando con su confianza durante muchos años.",
        "Si tiene alguna pregunta, nuestra oficina está abierta todos los días laborables de nueve a cinco.",
    ),
}


@dataclass(frozen=True, slots=True)
class Content:
    """One document's words, before they take the form of a file: paragraphs, then a table, if there is one."""

    kind: str
    title: str
    author: str
    date: str
    language: str
    paragraphs: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()

    def lines(self) -> list[str]:
        """Everything it says, a paragraph or a row of the table each."""
        return [self.title, f"{self.author}, {self.date}", *self.paragraphs, *("   ".join(row) for row in self.table)]


def make_content(seed: int, length: int) -> Content:
    """Make one document's words with about so many paragraphs or rows."""
    random = Random(seed)  # noqa: S311 - a seed makes a document, not a secret
    date = f"20{random.randint(19, 25)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    number = f"{random.randint(1000, 9999)}-{seed % 1000:03}"
    return WRITERS[random.randrange(len(WRITERS))](random, date, number, length)


def _sample_sentences(random: Random, sentences: tuple[str, ...], count: int) -> tuple[str, ...]:
    """So many sentences; none comes back before all the others were used."""
    said: list[str] = []
    while len(said) < count:
        said.extend(random.sample(sentences, len(sentences)))
    return tuple(said[:count])


def _invoice(random: Random, date: str, number: str, length: int) -> Content:
    rows: list[tuple[str, ...]] = [("Item", "Quantity", "Price", "Amount")]
    total = 0
    for item in _sample_sentences(random, GOODS, length):
        quantity, price = random.randint(1, 40), random.randint(250, 19_900)
        total += quantity * price
        rows.append((item, str(quantity), f"{price / 100:.2f}", f"{quantity * price / 100:.2f}"))
    rows.append(("Total", "", "", f"{total / 100:.2f}"))
    buyer = random.choice(COMPANIES)
    text = (f"Invoice to {buyer}, {random.choice(TOWNS)}.", "Please pay within thirty days, quoting the number above.")
    return Content("invoice", f"Invoice {number}", random.choice(COMPANIES), date, "en", text, tuple(rows))


def _letter(random: Random, date: str, number: str, length: int) -> Content:
    language = random.choice(tuple(LETTERS))
    word = {"en": "Letter", "de": "Schreiben", "es": "Carta"}[language]
    body = _sample_sentences(random, LETTERS[language], max(length, 4))
    return Content("letter", f"{word} {number}", random.choice(PEOPLE), date, language, body)


def _contract(random: Random, date: str, number: str, length: int) -> Content:
    first, second = random.sample(COMPANIES, 2)
    clauses = [
        f"Clause {i}: {clause}" for i, clause in enumerate(_sample_sentences(random, CLAUSES, max(length, 4)), 1)
    ]
    between = f"Between {first} of {random.choice(TOWNS)} and {second} of {random.choice(TOWNS)}."
    return Content("contract", f"Supply agreement {number}", first, date, "en", (between, *clauses))


def _minutes(random: Random, date: str, number: str, length: int) -> Content:
    present = ", ".join(random.sample(PEOPLE, 4))
    items = [f"Item {i}: {point}" for i, point in enumerate(_sample_sentences(random, AGENDA, max(length, 4)), 1)]
    return Content("minutes", f"Minutes {number}", random.choice(PEOPLE), date, "en", (f"Present: {present}.", *items))


Writer = Callable[[Random, str, str, int], Content]
WRITERS: tuple[Writer, ...] = (_invoice, _letter, _contract, _minutes)
