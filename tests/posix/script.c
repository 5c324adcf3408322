/* script.c - run the steps of a case. */
#include "script.h"

#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 16
#define STEP_MAX 16384

struct world world = {.result = -1};

void fail(const char *fmt, ...)
{
	char text[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n > 0 && world.result >= 0 &&
	    write(world.result, text, strnlen(text, sizeof(text))) < 0)
		_exit(2);
	_exit(1);
}

uint64_t word_number(const char *word)
{
	uint64_t n;

	if (parse_size(word, &n) < 0)
		fail("%s: bad number '%s'", world.step, word);
	return n;
}

uint32_t word_octal(const char *word)
{
	uint32_t n;

	if (parse_mode(word, 07777, &n) < 0)
		fail("%s: bad mode '%s'", world.step, word);
	return n;
}

uid_t word_id(const char *word)
{
	if (strcmp(word, "u") == 0)
		return UID_U;
	if (strcmp(word, "v") == 0)
		return UID_V;
	if (strcmp(word, "me") == 0)
		return world.uid;
	if (strcmp(word, "x") == 0)
		return GID_EXTRA;
	if (strcmp(word, "-") == 0)
		return (uid_t)-1;
	return (uid_t)word_number(word);
}

int word_fd(const char *word)
{
	if (word[0] >= 'a' && word[0] <= 'z' && !word[1])
		return world.fd[word[0] - 'a'];
	return (int)word_number(word);
}

void become(uid_t uid, gid_t group)
{
	if (setresuid((uid_t)-1, 0, (uid_t)-1) < 0)
		fail("cannot be root again");
	if (setgroups(group ? 1 : 0, &group) < 0 || setresgid(uid, uid, 0) < 0 ||
	    setresuid(uid, uid, 0) < 0)
		fail("cannot become %u", (unsigned)uid);
	world.uid = uid;
}

int in_child(int (*fn)(void *arg), void *arg)
{
	int status;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		fail("fork: %s", text_errno(errno));
	if (pid == 0)
		_exit(fn(arg));
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		fail("child ended badly");
	return WEXITSTATUS(status);
}

void wait_tick(void)
{
	struct timespec pause = {.tv_nsec = 12000000};

	nanosleep(&pause, NULL);
}

/* ---- words ---- */

/* Append the word to *out with its $ parts filled in; *out moves on. */
static char *expand(const char *word, char **out, const char *end)
{
	char *start = *out;
	char *to = *out;

	if (strcmp(word, "''") == 0)
		word = "";
	while (*word) {
		size_t n = 0;
		char kind;

		if (*word != '$') {
			*to++ = *word++;
			continue;
		}
		kind = word[1];
		for (word += 2; *word >= '0' && *word <= '9'; word++)
			n = n * 10 + (size_t)(*word - '0');
		if (n + 1 > (size_t)(end - to))
			fail("%s: word too long", world.step);
		for (size_t i = 0; i < n; i++)
			*to++ = (char)(kind != 'd' ? 'x' : i & 1 ? '/' : '.');
	}
	*to++ = '\0';
	*out = to;
	return start;
}

/* Split a step at spaces, in place, and expand. The number of words. */
static int split(char *step, char **words, char *room, const char *end)
{
	int n = 0;

	for (char *at = step; *at;) {
		char *word = at;

		if (*at == ' ') {
			at++;
			continue;
		}
		while (*at && *at != ' ')
			at++;
		if (*at)
			*at++ = '\0';
		if (n == WORDS_MAX - 1)
			fail("%s: too many words", world.step);
		words[n++] = expand(word, &room, end);
	}
	words[n] = NULL;
	return n;
}

static const struct call *find_call(const char *name)
{
	for (const struct call *call = calls; call->name; call++)
		if (strcmp(call->name, name) == 0)
			return call;
	for (const struct call *call = checks; call->name; call++)
		if (strcmp(call->name, name) == 0)
			return call;
	fail("%s: no such call '%s'", world.step, name);
}

static const char *answer_text(long r, char *text, size_t size)
{
	if (r < 0)
		return text_errno((int)-r);
	snprintf(text, size, "%ld", r);
	return text;
}

static void expect(const char *want, long r)
{
	char text[32];

	if (!want && r >= 0)
		return;
	if (want && strcmp(want, answer_text(r, text, sizeof(text))) == 0)
		return;
	fail("%s: wanted %s, got %s", world.step, want ? want : "success",
	     answer_text(r, text, sizeof(text)));
}

static void run_step(char *step)
{
	static char room[STEP_MAX];
	char *words[WORDS_MAX];
	char **v = words;
	const char *want = NULL;
	const struct call *call;
	int keep = -1;
	int n;
	long r;

	n = split(step, words, room, room + sizeof(room));
	if (n >= 3 && strcmp(words[n - 2], "=") == 0) {
		want = words[n - 1];
		n -= 2;
		words[n] = NULL;
	}
	if (n == 0)
		return;
	if (v[0][0] >= 'a' && v[0][0] <= 'z' && v[0][1] == '=') {
		keep = v[0][0] - 'a';
		v[0] += 2;
	}
	call = find_call(v[0]);
	if (n - 1 < call->min || n - 1 > call->max)
		fail("%s: %d words", world.step, n - 1);
	r = call->run(v);
	expect(want, r);
	if (keep >= 0)
		world.fd[keep] = (int)r;
}

void script_run(const char *script)
{
	char step[STEP_MAX];
	static char shown[200];

	for (const char *at = script; *at;) {
		size_t len = strcspn(at, ";");

		while (len > 0 && *at == ' ') {
			at++;
			len--;
		}
		if (len >= sizeof(step))
			fail("step too long");
		memcpy(step, at, len);
		step[len] = '\0';
		snprintf(shown, sizeof(shown), "%.190s", step);
		world.step = shown;
		run_step(step);
		at += len;
		if (*at == ';')
			at++;
	}
}
