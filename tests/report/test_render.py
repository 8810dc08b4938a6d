"""Pages hold what they were given, escaped, and need nothing else."""

import base64
import hashlib
import re

from recorded import PageReader

from mupc import report

NASTY = "<script>alert('x')</script>\"'&`<img src=x onerror=alert(1)>`</script>"
PNG = report.png_uri(b"png")


def everything(text):
    """A page with every kind of block, in which every text is the same."""
    series = report.Series(text, [1, 2, 3], [0.5, None, float("nan")])
    table = report.PlainTable(text, (text, text), ((text, text), (text, "good")), badges={"good": "good"})
    blocks = (
        report.Prose((text,)),
        report.Heading(text),
        report.Alert((text,), "warning"),
        report.NoteList((text,)),
        report.Facts((report.Fact(text, text, text),)),
        table,
        report.TableGrid((table,)),
        report.ChartGrid((report.Chart(text, text, text, (series,), marks={text: 1.0}, x_names=(text,)),)),
        report.Matrix(text, (text, "b"), ((3, 1), (0, 0))),
        report.Gallery(text, (report.GalleryItem(PNG, text, text, text),)),
        report.ShadedText(text, ((text, 0.5),)),
        report.Picture(PNG, text),
        report.Picture(None, text),
    )
    return report.render(report.Page(text, text, (report.PageSection(text, blocks), report.PageSection(text, level=3))))


def without_data(page):
    return re.sub(r"<script.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL)


def test_text_cannot_become_markup():
    page = everything(NASTY)
    plain = everything("plain")
    tags = [[tag for tag, _ in PageReader(one).tags if tag != "code"] for one in (page, plain)]
    assert tags[0] == tags[1]
    names = [{name for _, attributes in PageReader(one).tags for name in attributes} for one in (page, plain)]
    assert names[0] == names[1] and "onerror" not in names[0]
    assert page.count("</script>") == plain.count("</script>")
    assert NASTY.replace("`", "") in PageReader(page).text


def test_charts_keep_their_numbers_and_have_gaps_where_there_is_none():
    (chart,) = PageReader(everything(NASTY)).charts.values()
    assert chart["title"] == NASTY and chart["series"][0]["x"] == [1, 2, 3]
    assert chart["series"][0]["y"] == [0.5, None, None] and chart["marks"] == {NASTY: 1.0}


def test_pages_need_nothing_else():
    reader = PageReader(everything("plain"))
    for tag, attributes in reader.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
    page = everything("plain")
    assert "@import" not in page and "url(" not in re.sub(r"`url\(#\$\{id\}\)`", "", page)


def test_only_the_scripts_of_the_page_may_run():
    page = everything("plain")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    allowed = re.search(r"script-src (.*?);", page)[1].split()
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert [f"'sha256-{one}'" for one in hashes] == [
        word.replace("&#39;", "'").replace("&#43;", "+") for word in allowed
    ]
    assert "default-src 'none'" in page


def test_pages_can_be_read_without_eyes_or_a_mouse():
    reader = PageReader(everything("plain"))
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("h1") == 1 and tags.count("table") == tags.count("caption")
    assert all(attributes.get("alt") for tag, attributes in reader.tags if tag == "img")
    assert all("scope" in attributes for tag, attributes in reader.tags if tag == "th")
    assert ("html", {"lang": "en"}) in reader.tags
    anchors = {attributes["href"][1:] for tag, attributes in reader.tags if tag == "a"}
    assert anchors <= {attributes.get("id") for _, attributes in reader.tags}


def test_the_matrix_shows_how_many_of_each_class_are_found():
    (rows,) = [
        rows for caption, rows in PageReader(everything("a")).tables.items() if rows[0][0].startswith("true")
    ] or [None]
    assert rows[1:] == [["a", "3", "1", "75.0 %"], ["b", "·", "·", "–"]]
