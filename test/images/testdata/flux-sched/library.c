/* A library that links, loads and can do nothing. */
#include "resource/reapi/bindings/c/reapi_cli.h"

reapi_cli_ctx_t *reapi_cli_new (void) { return (reapi_cli_ctx_t *)malloc (1); }
void reapi_cli_destroy (reapi_cli_ctx_t *ctx) { free (ctx); }
int reapi_cli_add_subgraph (reapi_cli_ctx_t *ctx, const char *R_subgraph) { return -1; }
int reapi_cli_remove_subgraph (reapi_cli_ctx_t *ctx, const char *path) { return -1; }
int reapi_cli_initialize (reapi_cli_ctx_t *ctx, const char *jgf, const char *options) { return -1; }
int reapi_cli_match (reapi_cli_ctx_t *ctx, match_op_t op, const char *jobspec, uint64_t *jobid,
                     bool *reserved, char **R, int64_t *at, double *ov) { return -1; }
int reapi_cli_match_satisfy (reapi_cli_ctx_t *ctx, const char *jobspec, bool *sat, double *ov) { return -1; }
int reapi_cli_update_allocate (reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R, int64_t *at,
                               double *ov, char **R_out) { return -1; }
int reapi_cli_cancel (reapi_cli_ctx_t *ctx, uint64_t jobid, bool noent_ok) { return -1; }
int reapi_cli_info (reapi_cli_ctx_t *ctx, uint64_t jobid, char **mode, bool *reserved, int64_t *at,
                    double *ov) { return -1; }
int reapi_cli_stat (reapi_cli_ctx_t *ctx, int64_t *V, int64_t *E, int64_t *J, double *load,
                    double *min, double *max, double *avg) { return -1; }
const char *reapi_cli_get_err_msg (reapi_cli_ctx_t *ctx) { return "this library can do nothing"; }
void reapi_cli_clear_err_msg (reapi_cli_ctx_t *ctx) {}
