/* SPDX-License-Identifier: MIT
 *
 * The examples of FIPS 180, and lengths around a block, whose hashes were made by another program.
 */
#include "log/sha256.h"

#include "test.h"

TEST_MAIN

static void expect(const void *data, size_t bytes, size_t piece, const char *hex)
{
    struct hdi_sha256 sha;
    uint8_t hash[HDI_SHA256_BYTES];
    char text[2 * HDI_SHA256_BYTES + 1];
    hdi_sha256_init(&sha);
    for (size_t at = 0; at < bytes; at += piece) {
        hdi_sha256_add(&sha, (const char *)data + at, bytes - at < piece ? bytes - at : piece);
    }
    hdi_sha256_end(&sha, hash);
    for (size_t i = 0; i < sizeof(hash); i++) sprintf(text + 2 * i, "%02x", hash[i]);
    if (strcmp(text, hex) != 0) {
        test_fail(__FILE__, __LINE__, "%zu bytes by %zu: %s, expected %s", bytes, piece, text, hex);
    }
}

TEST(published_vectors)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect(two, strlen(two), 64,
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    static char million[1000000];
    memset(million, 'a', sizeof(million));
    static const size_t pieces[] = {1, 7, 63, 64, 65, 1000000};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        expect(million, sizeof(million), pieces[i],
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

TEST(lengths_around_a_block)
{
    static const struct {
        size_t bytes;
        const char *hex;
    } cases[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
        {128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
    };
    char letters[128];
    memset(letters, 'a', sizeof(letters));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t piece = 1; piece <= cases[i].bytes; piece += 3) {
            expect(letters, cases[i].bytes, piece, cases[i].hex);
        }
    }
}
