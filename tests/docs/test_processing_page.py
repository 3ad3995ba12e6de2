"""docs/processing.md says of the sandbox what the code knows."""

from pathlib import Path

from inturn.sandbox import layers

PAGE = Path(__file__).parents[2] / "docs" / "processing.md"


def layers_table() -> str:
    lines = ["| if it is missing | Linux has it since | a worker that is not root: the parser could | a root worker |"]
    lines.append("|---|---|---|---|")
    for layer in layers.LAYERS:
        cells = [
            "; ".join(item.description for item in layer.exposures(is_root=root)) or "nothing more"
            for root in (False, True)
        ]
        lines.append(f"| {layer.name} | {layer.since} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def test_the_page_has_the_table_of_the_sandboxs_layers() -> None:
    assert layers_table() in PAGE.read_text(encoding="utf-8")


def test_every_layer_of_the_table_is_told_in_words() -> None:
    for layer in layers.LAYERS:
        for is_root in (False, True):
            reported = layer.describe(is_root=is_root)
            assert reported.startswith(f"{layer.name} ({layer.since}); without it a parser that was taken over could ")
            assert all(power.description in reported for power in layer.exposures(is_root=is_root))
    assert list(layers.missing_layers(7, seccomp=True, user=True)) == []
