/* pool_test.c - things of one size: apart from each other, zeroed, and kept while memory is given
 * back. */
#include "vfs/pool.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT 20000
#define SIZE 352

struct thing {
	uint64_t id, filler[SIZE / 8 - 2], id_again;
};

static struct thing *things[COUNT];

static void take(struct pool *pool, size_t i)
{
	things[i] = pool_get0(pool);
	for (size_t k = 0; k < ARRAY_LEN(things[i]->filler); k++)
		assert_int_equal(things[i]->filler[k], 0);
	assert_int_equal(things[i]->id, 0);
	memset(things[i], 0xee, sizeof(*things[i]));
	things[i]->id = things[i]->id_again = i;
}

static void drop(struct pool *pool, size_t i)
{
	assert_int_equal(things[i]->id, i);
	assert_int_equal(things[i]->id_again, i);
	pool_put(pool, things[i]);
	things[i] = NULL;
}

static void things_keep_apart(void **state)
{
	struct pool pool;
	uint64_t rng = 1;

	(void)state;
	pool_init(&pool, sizeof(struct thing));
	for (int round = 0; round < 5 * COUNT; round++) {
		size_t i;

		rng = rng * 6364136223846793005u + 1442695040888963407u;
		i = (rng >> 33) % COUNT;
		if (things[i])
			drop(&pool, i);
		else
			take(&pool, i);
		if (round % 20000 == 0)
			pool_trim(&pool);
	}
	/* Nearly empty: most pages go, what is left stays. */
	for (size_t i = 0; i < COUNT; i++)
		if (things[i] && i % 500)
			drop(&pool, i);
	pool_trim(&pool);
	for (size_t i = 0; i < COUNT; i++)
		if (!things[i])
			take(&pool, i);
	for (size_t i = 0; i < COUNT; i++)
		drop(&pool, i);
	pool_clear(&pool);
}

static void every_size_fits(void **state)
{
	void *items[100];

	(void)state;
	for (size_t size = 1; size < 5000; size += 37) {
		struct pool pool;

		pool_init(&pool, size);
		for (size_t i = 0; i < ARRAY_LEN(items); i++) {
			items[i] = pool_get(&pool);
			memset(items[i], 0xee, size);
		}
		for (size_t i = 0; i < ARRAY_LEN(items); i++)
			pool_put(&pool, items[i]);
		pool_clear(&pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(things_keep_apart),
		cmocka_unit_test(every_size_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
