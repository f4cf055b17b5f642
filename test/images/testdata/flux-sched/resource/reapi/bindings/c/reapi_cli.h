/* What fluxion-go v0.39.0 and this project call, declared as they call it. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <flux/core.h>

typedef struct reapi_cli_ctx reapi_cli_ctx_t;
typedef enum { MATCH_UNKNOWN } match_op_t;

reapi_cli_ctx_t *reapi_cli_new (void);
void reapi_cli_destroy (reapi_cli_ctx_t *ctx);
int reapi_cli_add_subgraph (reapi_cli_ctx_t *ctx, const char *R_subgraph);
int reapi_cli_remove_subgraph (reapi_cli_ctx_t *ctx, const char *path);
int reapi_cli_initialize (reapi_cli_ctx_t *ctx, const char *jgf, const char *options);
int reapi_cli_match (reapi_cli_ctx_t *ctx, match_op_t op, const char *jobspec, uint64_t *jobid,
                     bool *reserved, char **R, int64_t *at, double *ov);
int reapi_cli_match_satisfy (reapi_cli_ctx_t *ctx, const char *jobspec, bool *sat, double *ov);
int reapi_cli_update_allocate (reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R, int64_t *at,
                               double *ov, char **R_out);
int reapi_cli_cancel (reapi_cli_ctx_t *ctx, uint64_t jobid, bool noent_ok);
int reapi_cli_info (reapi_cli_ctx_t *ctx, uint64_t jobid, char **mode, bool *reserved, int64_t *at,
                    double *ov);
int reapi_cli_stat (reapi_cli_ctx_t *ctx, int64_t *V, int64_t *E, int64_t *J, double *load,
                    double *min, double *max, double *avg);
const char *reapi_cli_get_err_msg (reapi_cli_ctx_t *ctx);
void reapi_cli_clear_err_msg (reapi_cli_ctx_t *ctx);
