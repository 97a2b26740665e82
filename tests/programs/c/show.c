#include "show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

client_string_t string(const char *text) {
  client_string_t string;
  client_string_set(&string, text);
  return string;
}

client_list_u8_t bytes(const char *text) {
  return (client_list_u8_t){(uint8_t *)text, strlen(text)};
}

void copy_text(char *to, size_t size, client_string_t text) {
  size_t length = text.len < size ? text.len : size - 1;
  memcpy(to, text.ptr, length);
  to[length] = '\0';
}

// The arguments for `%.*s`: a string's length and pointer.
#define TEXT(string) (int)(string).len, (const char *)(string).ptr

// The names of enum cases, in the contract's order.
static const char *const languages[] = {"python", "javascript"};
static const char *const resources[] = {"fuel", "time", "memory"};
static const char *const traps[] = {
    "stack-overflow", "unreachable", "out-of-bounds", "bad-call", "arithmetic", "bad-report", "other",
};
static const char *const file_errors[] = {"invalid-path", "not-found", "exists", "wrong-kind", "no-space", "refused"};
static const char *const errors[] = {
    "unknown-runtime",   "invalid-policy", "invalid-argument", "source-too-large", "stdin-too-large",
    "too-many-sessions", "quota-exceeded", "session-ended",    "session-busy",     "no-checkpoint",
    "variable",          "file",           "not-resumable",    "unsupported",      "unavailable",
};

void show_runtimes(void) {
  sandbox_provider_info_t info;
  sandbox_info(&info);
  printf("runtimes:");
  const char *separator = " ";
  unsigned shown = 0;
  for (size_t i = 0; i < info.runtimes.len; i++) {
    types_language_t language = info.runtimes.ptr[i].language;
    if (shown & 1u << language) continue;
    shown |= 1u << language;
    printf("%s%s", separator, languages[language]);
    separator = ", ";
  }
  printf("\n");
  sandbox_provider_info_free(&info);
}

void show_diagnostic(const char *label, const sandbox_diagnostic_t *diagnostic) {
  printf("%s: not well-formed, line %" PRIu32 ", column %" PRIu32 ": %.*s\n", label, diagnostic->line, diagnostic->column,
         TEXT(diagnostic->message));
}

// Prints the result of a script. No outcome is an error: the sandbox worked as intended.
void show_execution(const char *label, const sandbox_execution_t *execution) {
  printf("%s: ", label);
  const types_outcome_t *outcome = &execution->outcome;
  switch (outcome->tag) {
    case TYPES_OUTCOME_COMPLETED:
      printf("completed");
      break;
    case TYPES_OUTCOME_EXITED:
      printf("exited with %" PRId32, outcome->val.exited);
      break;
    case TYPES_OUTCOME_RAISED:
      printf("raised %.*s: %.*s (line %" PRIu32 ")", TEXT(outcome->val.raised.type_name), TEXT(outcome->val.raised.message),
             outcome->val.raised.line.val);
      break;
    case TYPES_OUTCOME_EXHAUSTED:
      printf("exhausted %s, limit %" PRIu64, resources[outcome->val.exhausted.resource], outcome->val.exhausted.limit);
      break;
    case TYPES_OUTCOME_CANCELLED:
      printf("cancelled");
      break;
    case TYPES_OUTCOME_TRAPPED:
      printf("trapped, %s", traps[outcome->val.trapped]);
      break;
  }
  if (execution->value.is_some) printf(", value %.*s", TEXT(execution->value.val.repr));
  client_list_u8_t written = execution->stdout_.bytes;
  while (written.len > 0 && written.ptr[written.len - 1] == '\n') written.len--;
  if (written.len > 0) printf(", wrote: %.*s", TEXT(written));
  printf("\n");
}

void show_tool_request(const sandbox_tool_request_t *call) {
  printf("tool: %.*s %.*s\n", TEXT(call->name), TEXT(call->arguments));
}

void show_error(const sandbox_sandbox_error_t *error) {
  printf("error: %s", errors[error->tag]);
  switch (error->tag) {
    case TYPES_SANDBOX_ERROR_SOURCE_TOO_LARGE:
    case TYPES_SANDBOX_ERROR_STDIN_TOO_LARGE: {
      types_too_large_t size =
          error->tag == TYPES_SANDBOX_ERROR_SOURCE_TOO_LARGE ? error->val.source_too_large : error->val.stdin_too_large;
      printf(", %" PRIu64 " bytes of at most %" PRIu64, size.bytes, size.limit);
      break;
    }
    case TYPES_SANDBOX_ERROR_FILE:
      printf(", %s", file_errors[error->val.file.kind]);
      break;
    default:  // The other cases carry a message, such as `error->val.invalid_policy`.
      break;
  }
  printf("\n");
}

bool show_file(sandbox_borrow_files_t files, const char *path, sandbox_sandbox_error_t *error) {
  client_string_t name = string(path);
  sandbox_file_entry_t entry;
  if (!sandbox_method_files_stat(files, &name, &entry, error)) return false;
  printf("file: %s (%" PRIu64 " bytes): ", path, entry.size_bytes);
  sandbox_file_entry_free(&entry);
  // Reads the file in chunks, because it may be larger than one call returns.
  for (uint64_t offset = 0;;) {
    client_list_u8_t piece;
    if (!sandbox_method_files_read(files, &name, offset, 65536, &piece, error)) return false;
    fwrite(piece.ptr, 1, piece.len, stdout);
    offset += piece.len;
    bool end = piece.len == 0;
    client_list_u8_free(&piece);
    if (end) break;
  }
  printf("\n");
  return true;
}
