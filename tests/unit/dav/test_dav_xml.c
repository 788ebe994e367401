#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "dav/dav_xml.h"

struct doc {
    struct arena arena;
    const struct dav_xml *root;
    struct err err;
    int result;
};

static void
read_slice(struct doc *doc, struct slice body)
{
    *doc = (struct doc){0};
    arena_init(&doc->arena);
    doc->result = dav_xml_parse(body, &doc->arena, &doc->root, &doc->err);
}

static void
read_doc(struct doc *doc, const char *body)
{
    read_slice(doc, slice_of(body));
}

static void
release(struct doc *doc)
{
    arena_release(&doc->arena);
}

static enum err_code
code_of(struct slice body)
{
    struct doc doc;

    read_slice(&doc, body);
    release(&doc);
    return doc.result == 0 ? ERR_NONE : doc.err.code;
}

static char *
inner_of(const char *body)
{
    struct doc doc;
    struct buf out;

    read_doc(&doc, body);
    if (doc.result < 0)
        fail_msg("%s: %s", body, doc.err.msg);
    buf_init(&out, 1 << 20);
    dav_xml_inner(&out, doc.root);
    release(&doc);
    return out.data ? out.data : mem_strdup("");
}

/* count times piece between head and tail. */
static char *
repeat(const char *head, const char *piece, size_t count, const char *tail)
{
    struct buf out;

    buf_init(&out, SIZE_MAX / 2);
    buf_adds(&out, head);
    for (size_t i = 0; i < count; i++)
        buf_adds(&out, piece);
    buf_adds(&out, tail);
    return out.data;
}

static void
expect_repeated(const char *head, const char *piece, size_t count, const char *tail,
                enum err_code want)
{
    char *body = repeat(head, piece, count, tail);
    int64_t started_us = clock_mono_us();
    enum err_code got = code_of(slice_of(body));

    if (got != want)
        fail_msg("%zu times %s: got %s, want %s", count, piece, err_code_name(got),
                 err_code_name(want));
    assert_true(clock_mono_us() - started_us < 3000000); /* whatever is refused is refused soon */
    free(body);
}

static void
test_a_request_body_becomes_a_tree(void **state)
{
    struct doc doc;
    const struct dav_xml *prop;
    const struct dav_xml *name;

    (void)state;
    read_doc(&doc, "<?xml version=\"1.0\"?>\n<D:propfind xmlns:D=\"DAV:\"><!-- a note -->\n"
                   " <D:prop>stray<D:getetag/><size xmlns='urn:x'/><plain/></D:prop>M"
                   "</D:propfind>");
    assert_int_equal(doc.result, 0);
    assert_true(dav_xml_is(doc.root, "propfind"));
    assert_null(dav_xml_child(doc.root, "allprop"));
    prop = dav_xml_child(doc.root, "prop");
    assert_non_null(prop);
    name = dav_xml_first(prop);
    assert_true(dav_xml_is(name, "getetag"));
    assert_string_equal(name->prefix, "D");
    name = dav_xml_after(name);
    assert_string_equal(name->ns, "urn:x");
    assert_string_equal(name->name, "size");
    assert_string_equal(name->prefix, "");
    name = dav_xml_after(name);
    assert_string_equal(name->ns, "");
    assert_null(dav_xml_after(name));
    release(&doc);
}

static void
test_what_is_not_well_formed_is_invalid(void **state)
{
    static const char *const BODIES[] = {
        "",
        " ",
        "this is not xml",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a/>text",
        "<a b='1' b='2'/>",
        "<a><b></a></b>",
        "<a>&nbsp;</a>",
        "<a>&#0;</a>",
        "<a>&#1;</a>",
        "<a>\x01</a>",
        "<a>\xff\xfe</a>",
        "<a>\xc0\xaf</a>",
        "<a>\xed\xa0\x80</a>",
        "<a>]]></a>",
        "<p:a/>",
        "<a p:b='1'/>",
        "<a xmlns:p=''/>",
        "<p:a xmlns:p=''/>",
        "<a xmlns:xmlns='urn:x'/>",
        "<a xmlns:xml='urn:x'/>",
        "<a xmlns:p='urn:x' xmlns:q='urn:x' p:b='1' q:b='2'/>",
        "<a xmlns='urn:with&#10;line'/>",
        "<a xmlns:p='urn:x&#10;y&#10;z'><p:b/></a>",
        "<?xml version='1.0' encoding='no-such'?><a/>",
        "<?xml version='9.9'?><a/><",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(BODIES) / sizeof(*BODIES); i++) {
        enum err_code got = code_of(slice_of(BODIES[i]));

        if (got != ERR_INVALID)
            fail_msg("%s: %s", BODIES[i], err_code_name(got));
    }
    assert_int_equal(code_of((struct slice){"<a>\0</a>", 8}), ERR_INVALID);
}

static void
test_document_types_and_entities_are_refused(void **state)
{
    static const char *const BODIES[] = {
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
        "<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>",
        "<!DOCTYPE a SYSTEM 'http://127.0.0.1/a.dtd'><a/>",
        "<!DOCTYPE a [<!ENTITY % p SYSTEM 'http://127.0.0.1/'> %p;]><a/>",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(BODIES) / sizeof(*BODIES); i++)
        assert_int_equal(code_of(slice_of(BODIES[i])), ERR_INVALID);
}

static void
test_depth_and_counts_are_bounded(void **state)
{
    (void)state;
    expect_repeated("", "<a>", 20000, "", ERR_INVALID);
    expect_repeated("<a>", "<b/>", DAV_XML_ELEMENTS_MAX - 1, "</a>", ERR_NONE);
    expect_repeated("<a>", "<b/>", DAV_XML_ELEMENTS_MAX, "</a>", ERR_TOO_LARGE);
    expect_repeated("<a>", "0123456789abcdef\n", 60000, "</a>", ERR_NONE);
    expect_repeated("<a>", "0123456789abcdef\n", 70000, "</a>", ERR_TOO_LARGE);
    expect_repeated("<a", " b=''", 20000, "/>", ERR_TOO_LARGE); /* the tag is too long already */
    expect_repeated("<a b='", "0123456789abcdef", 10000, "'/>", ERR_TOO_LARGE);
    expect_repeated("<a><!--", "0123456789abcdef", 10000, "--></a>", ERR_TOO_LARGE);
    expect_repeated("<", "a", DAV_XML_NAME_MAX, "/>", ERR_NONE);
    expect_repeated("<", "a", DAV_XML_NAME_MAX + 1, "/>", ERR_TOO_LARGE);
    expect_repeated("<a xmlns='", "n", DAV_XML_NS_MAX, "'/>", ERR_NONE);
    expect_repeated("<a xmlns='", "n", DAV_XML_NS_MAX + 1, "'/>", ERR_TOO_LARGE);
}

static void
test_attributes_of_one_element_are_bounded(void **state)
{
    struct buf body;

    (void)state;
    buf_init(&body, 1 << 20);
    buf_adds(&body, "<a");
    for (int i = 0; i < DAV_XML_ATTRS_MAX; i++)
        buf_printf(&body, " b%d=''", i);
    buf_adds(&body, "/>");
    assert_int_equal(code_of(buf_slice(&body)), ERR_NONE);
    body.len -= 2;
    buf_adds(&body, " c=''/>");
    assert_int_equal(code_of(buf_slice(&body)), ERR_TOO_LARGE);
    buf_release(&body);
}

/* A long namespace that many names use costs its length each time. */
static void
test_namespaces_do_not_multiply(void **state)
{
    char ns[DAV_XML_NS_MAX + 1];
    struct buf head;

    (void)state;
    memset(ns, 'n', sizeof(ns));
    ns[DAV_XML_NS_MAX] = 0;
    buf_init(&head, 1 << 20);
    buf_printf(&head, "<p:a xmlns:p='%s'>", ns);
    expect_repeated(head.data, "<p:b p:c='' p:d='' p:e='' p:f='' p:g=''/>", 9000, "</p:a>",
                    ERR_TOO_LARGE);
    buf_release(&head);
}

static void
test_the_inside_of_an_element_needs_no_context(void **state)
{
    static const struct {
        const char *body;
        const char *want;
    } ROWS[] = {
        {"<a/>", ""},
        {"<a>r&amp;d &lt; \"q\" &gt; \xc3\xa9</a>", "r&amp;d &lt; \"q\" &gt; \xc3\xa9"},
        {"<a><![CDATA[<b>&]]></a>", "&lt;b&gt;&amp;"},
        {"<a>1<!-- no -->2<?no?>3</a>", "123"},
        {"<a>line\r\nend&#13;</a>", "line\nend&#13;"},
        {"<a><b/></a>", "<b/>"},
        {"<a xmlns='u:1'><b/></a>", "<b xmlns=\"u:1\"/>"},
        {"<p:a xmlns:p='u:1'><p:b><p:c/></p:b></p:a>", "<p:b xmlns:p=\"u:1\"><p:c/></p:b>"},
        {"<p:a xmlns:p='u:1' xmlns:q='u:2'><q:b><p:c/>t</q:b></p:a>",
         "<q:b xmlns:q=\"u:2\"><p:c xmlns:p=\"u:1\"/>t</q:b>"},
        {"<a xmlns='u:1'><b><c xmlns=''><d/></c></b></a>",
         "<b xmlns=\"u:1\"><c xmlns=\"\"><d/></c></b>"},
        {"<a xmlns:p='u:1'><b p:x='1' y='2' p:z='3'/></a>",
         "<b xmlns:p=\"u:1\" p:x=\"1\" y=\"2\" p:z=\"3\"/>"},
        {"<a xmlns:p='u:1'><p:b p:x='1'/></a>", "<p:b xmlns:p=\"u:1\" p:x=\"1\"/>"},
        {"<a><b xml:lang='de' c='&lt;&quot;&#10;&#9;&amp;'/></a>",
         "<b xml:lang=\"de\" c=\"&lt;&quot;&#10;&#9;&amp;\"/>"},
        {"<a xmlns:p='u:1&amp;2'><p:b/></a>", "<p:b xmlns:p=\"u:1&amp;2\"/>"},
        {"<p:a xmlns:p='u:1'><p:b><p:c xmlns:p='u:2'><p:d/></p:c></p:b></p:a>",
         "<p:b xmlns:p=\"u:1\"><p:c xmlns:p=\"u:2\"><p:d/></p:c></p:b>"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
        char *once = inner_of(ROWS[i].body);
        char *wrapped = mem_printf("<x:o xmlns:x='u:9' xmlns:p='u:8'>%s</x:o>", once);
        char *twice = inner_of(wrapped);

        assert_string_equal(once, ROWS[i].want);
        assert_string_equal(twice, once);
        free(once);
        free(wrapped);
        free(twice);
    }
}

static void
test_the_language_in_force_is_inherited(void **state)
{
    struct doc doc;
    const struct dav_xml *child;

    (void)state;
    read_doc(&doc, "<a xml:lang='de'><b/><c xml:lang='fr-CA'/><d xml:lang=''/></a>");
    assert_int_equal(doc.result, 0);
    child = dav_xml_first(doc.root);
    assert_string_equal(child->lang, "de");
    child = dav_xml_after(child);
    assert_string_equal(child->lang, "fr-CA");
    child = dav_xml_after(child);
    assert_string_equal(child->lang, "");
    release(&doc);
}

static void
test_other_encodings_come_out_as_utf8(void **state)
{
    static const char UTF16[] = "\xff\xfe<\0a\0>\0\xe9\0<\0/\0a\0>\0";
    struct doc doc;

    (void)state;
    read_doc(&doc, "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>");
    assert_int_equal(doc.result, 0);
    assert_true(slice_is(dav_xml_text(doc.root), "\xc3\xa9"));
    release(&doc);
    read_slice(&doc, (struct slice){UTF16, sizeof(UTF16) - 1});
    assert_int_equal(doc.result, 0);
    assert_true(slice_is(dav_xml_text(doc.root), "\xc3\xa9"));
    release(&doc);
}

static void
test_text_is_only_that_of_an_element_that_holds_nothing_else(void **state)
{
    struct doc doc;

    (void)state;
    read_doc(&doc, "<a><b>one &amp; two</b><c>x<d/>y</c><e/></a>");
    assert_int_equal(doc.result, 0);
    assert_true(slice_is(dav_xml_text(dav_xml_first(doc.root)), "one & two"));
    assert_true(slice_is(dav_xml_text(dav_xml_after(dav_xml_first(doc.root))), ""));
    assert_true(slice_is(dav_xml_text(doc.root), ""));
    release(&doc);
}

static void
test_every_beginning_of_a_body_but_the_whole_is_invalid(void **state)
{
    static const char BODY[] = "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:propertyupdate "
                               "xmlns:D=\"DAV:\"><D:set><D:prop><x:y xmlns:x='u' xml:lang='de'>"
                               "\xe6\x97\xa5<![CDATA[]]]]></x:y></D:prop></D:set>"
                               "</D:propertyupdate>";

    (void)state;
    for (size_t len = 0; len < sizeof(BODY) - 1; len++) {
        char *copy = mem_strndup(BODY, len); /* so that a sanitizer sees a step too far */

        assert_int_equal(code_of((struct slice){copy, len}), ERR_INVALID);
        free(copy);
    }
    assert_int_equal(code_of(SLICE(BODY)), ERR_NONE);
}

static void
test_elements_are_written_with_their_namespace(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 1024);
    dav_xml_empty(&out, "DAV:", "getetag");
    dav_xml_empty(&out, "", "plain");
    dav_xml_start(&out, "u:\"1&2\"", "y", "de");
    dav_xml_end(&out, "u:\"1&2\"", "y");
    dav_xml_status(&out, 404);
    assert_string_equal(out.data, "<D:getetag/><plain/>"
                                  "<x:y xmlns:x=\"u:&quot;1&amp;2&quot;\" xml:lang=\"de\"></x:y>"
                                  "<D:status>HTTP/1.1 404 Not Found</D:status>");
    buf_release(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_body_becomes_a_tree),
        cmocka_unit_test(test_what_is_not_well_formed_is_invalid),
        cmocka_unit_test(test_document_types_and_entities_are_refused),
        cmocka_unit_test(test_depth_and_counts_are_bounded),
        cmocka_unit_test(test_attributes_of_one_element_are_bounded),
        cmocka_unit_test(test_namespaces_do_not_multiply),
        cmocka_unit_test(test_the_inside_of_an_element_needs_no_context),
        cmocka_unit_test(test_the_language_in_force_is_inherited),
        cmocka_unit_test(test_other_encodings_come_out_as_utf8),
        cmocka_unit_test(test_text_is_only_that_of_an_element_that_holds_nothing_else),
        cmocka_unit_test(test_every_beginning_of_a_body_but_the_whole_is_invalid),
        cmocka_unit_test(test_elements_are_written_with_their_namespace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
