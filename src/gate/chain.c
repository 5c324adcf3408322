/* chain.c - the hash chain over audit records. */
#include "base/mem.h"
#include "gate/gate_i.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* The context and the algorithm are kept: looking them up costs more than a short record's hash. */
struct chain {
	EVP_MD *sha256;
	EVP_MD_CTX *context;
	unsigned char hash[GATE_HASH];
};

struct chain *chain_new(const unsigned char hash[GATE_HASH])
{
	struct chain *chain = mem_alloc0(sizeof(*chain));

	chain->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	chain->context = EVP_MD_CTX_new();
	if (!chain->sha256 || !chain->context)
		abort();
	memcpy(chain->hash, hash, GATE_HASH);
	return chain;
}

void chain_free(struct chain **chain)
{
	if (!*chain)
		return;
	EVP_MD_CTX_free((*chain)->context);
	EVP_MD_free((*chain)->sha256);
	free(*chain);
	*chain = NULL;
}

void chain_add(struct chain *chain, struct span body)
{
	/* SHA-256 fails only for want of memory. */
	if (!EVP_DigestInit_ex(chain->context, chain->sha256, NULL) ||
	    !EVP_DigestUpdate(chain->context, chain->hash, GATE_HASH) ||
	    !EVP_DigestUpdate(chain->context, body.data, body.len) ||
	    !EVP_DigestFinal_ex(chain->context, chain->hash, NULL))
		abort();
}

const unsigned char *chain_hash(const struct chain *chain)
{
	return chain->hash;
}
