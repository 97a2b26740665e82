// A small agent that runs a model's scripts in the sandbox and shows every possible outcome.
//
// An ordinary WASI program. The bindings in client.h, for the world `client` of `wit/`, make it a component and call
// the contract's interfaces `sandbox` and `types`.
//
// The bindings represent the contract as follows:
// * a function that can fail returns `true` and fills its second-to-last argument with the result, or returns `false`
//   and fills its last argument with the error;
// * an option is `{.is_some, .val}`; a variant's case is `{.tag, .val}`, with constants for the tags; a string is a
//   pointer and a length, without a terminating NUL;
// * the caller owns both arguments and results; `…_free` frees a result's memory;
// * a resource is a handle, owned until `…_drop_own`; its functions accept a borrowed handle, created with
//   `sandbox_borrow_…`.
//
// The program must drop and free everything itself.

#include <stdio.h>
#include <stdlib.h>

#include "show.h"

static sandbox_runtime_t python = {.tag = TYPES_RUNTIME_PYTHON};
static sandbox_runtime_t javascript = {.tag = TYPES_RUNTIME_JAVASCRIPT};

// Fields that are not set have their defaults, which are zeros in C. A policy can only request less than the host
// grants.
static sandbox_policy_t no_policy;
static sandbox_session_options_t no_options;

static sandbox_request_t request(const char *source) {
  return (sandbox_request_t){.source = string(source)};
}

// Ends the program with an error message if a call failed.
static void check(bool ok, sandbox_sandbox_error_t *error) {
  if (ok) return;
  show_error(error);
  exit(EXIT_FAILURE);
}

// Checks that a call was refused, and prints the reason. An error is a fault of the host or the caller, never of the
// script.
static void refused(bool ok, sandbox_sandbox_error_t *error) {
  if (ok) {
    fputs("the sandbox accepted an invalid call\n", stderr);
    exit(EXIT_FAILURE);
  }
  show_error(error);
  sandbox_sandbox_error_free(error);
}

// Executes source code in a session and prints the result. Returns `true` if the script completed.
static bool execute_in(sandbox_borrow_session_t session, const char *source, const char *label) {
  sandbox_request_t script = request(source);
  sandbox_execution_t execution;
  sandbox_sandbox_error_t error;
  check(sandbox_method_session_execute(session, &script, &execution, &error), &error);
  if (label) show_execution(label, &execution);
  bool completed = execution.outcome.tag == TYPES_OUTCOME_COMPLETED;
  sandbox_execution_free(&execution);
  return completed;
}

// Prints a file from a session or an execution, and drops the files.
static void show_file_of(sandbox_own_files_t files, const char *path) {
  sandbox_sandbox_error_t error;
  check(show_file(sandbox_borrow_files(files), path, &error), &error);
  sandbox_files_drop_own(files);
}

// A model's possible answers to "add up the prices". Each answer is tried, and its problem is reported back to the
// model.
static const char *const answers[] = {
    "total = sum(item['price'] for item in context",
    "total = sum(item.price for item in context)",
    "total = sum(item['price'] for item in context)\n"
    "with open('total.txt', 'w') as file:\n"
    "    file.write(str(total))\n"
    "total",
};

// The loop of an agent: validates and runs each script until one succeeds.
static void work(sandbox_borrow_session_t session) {
  sandbox_sandbox_error_t error;
  for (size_t turn = 0; turn < sizeof answers / sizeof *answers; turn++) {
    char label[32];
    snprintf(label, sizeof label, "turn %zu", turn + 1);

    // Uses the language's own parser, which runs nothing.
    sandbox_request_t script = request(answers[turn]);
    sandbox_list_diagnostic_t diagnostics;
    check(sandbox_validate(&python, &script, &no_policy, &diagnostics, &error), &error);
    bool well_formed = diagnostics.len == 0;
    if (!well_formed) show_diagnostic(label, &diagnostics.ptr[0]);
    sandbox_list_diagnostic_free(&diagnostics);

    if (well_formed && execute_in(session, answers[turn], label)) break;
  }
  sandbox_own_files_t files;
  check(sandbox_method_session_files(session, &files, &error), &error);
  show_file_of(files, "total.txt");
}

// Returns the session's variable `total`, a number.
static long total(sandbox_borrow_session_t session) {
  client_string_t name = string("total");
  sandbox_option_guest_value_t value;
  sandbox_sandbox_error_t error;
  check(sandbox_method_session_get_variable(session, &name, &value, &error), &error);
  char digits[32] = "";
  if (value.is_some && value.val.json.is_some) copy_text(digits, sizeof digits, value.val.json.val);
  sandbox_option_guest_value_free(&value);
  return strtol(digits, NULL, 10);
}

// Keeps variables and files in a session, and forks, undoes and saves its state.
static void keep(sandbox_borrow_session_t session) {
  sandbox_sandbox_error_t error;

  sandbox_own_session_t copy;
  check(sandbox_method_session_fork(session, &copy, &error), &error);
  execute_in(sandbox_borrow_session(copy), "total += 100", NULL);
  printf("fork: %ld in the copy, %ld in the original\n", total(sandbox_borrow_session(copy)), total(session));
  sandbox_session_drop_own(copy);

  execute_in(session, "total = 0", NULL);
  long before = total(session);
  uint64_t checkpoint;
  check(sandbox_method_session_undo(session, &checkpoint, &error), &error);
  printf("undo: %ld before, %ld after\n", before, total(session));

  sandbox_own_blob_t state;
  check(sandbox_method_session_hibernate(session, &state, &error), &error);
  sandbox_own_session_t resumed;
  check(sandbox_static_session_resume(&python, sandbox_borrow_blob(state), &no_policy, &no_options, &resumed, &error), &error);
  printf("resume: %ld\n", total(sandbox_borrow_session(resumed)));
  sandbox_session_drop_own(resumed);
  sandbox_blob_drop_own(state);
}

static void outcome_of(sandbox_runtime_t *runtime, sandbox_request_t script, sandbox_policy_t policy) {
  sandbox_execution_t execution;
  sandbox_sandbox_error_t error;
  check(sandbox_execute(runtime, &script, &policy, &execution, &error), &error);
  show_execution("outcome", &execution);
  sandbox_execution_free(&execution);
}

// Shows every way in which a script can end. Each script runs in a new interpreter.
static void outcomes(void) {
  outcome_of(&javascript, request("console.log('hello from javascript')"), no_policy);
  outcome_of(&python, request("raise SystemExit(3)"), no_policy);
  outcome_of(&python, request("int('twelve')"), no_policy);

  sandbox_policy_t little_fuel = {.limits = {true, {.fuel = {true, 50000000}}}};
  outcome_of(&python, request("while True: pass"), little_fuel);

  // Cancelled after a tenth of a second.
  sandbox_request_t sleep = request("import time\ntime.sleep(60)");
  sleep.deadline_ms = (client_option_u64_t){true, 100};
  outcome_of(&python, sleep, no_policy);

  // Hashing nested tuples exceeds the interpreter's native stack.
  outcome_of(&python, request("t = ()\nfor _ in range(400000): t = (t,)\nhash(t)"), no_policy);
}

// A script that calls a tool of this program.
static const char notes[] =
    "kept = [tools.remember(fact=fact) for fact in ('tea costs 3', 'milk costs 2')]\n"
    "try:\n"
    "    tools.remember(fact='one too many')\n"
    "except tools.ToolError as error:\n"
    "    print('refused:', error)\n"
    "open('notes.txt', 'w').write(str(kept))\n";

// The tool: remembers up to two facts, and returns their number. `json` is the buffer for the answer's text.
static sandbox_tool_answer_t remember(const sandbox_tool_request_t *call, char json[static 32]) {
  static int kept = 0;
  show_tool_request(call);
  sandbox_tool_answer_t answer = {.id = call->id};
  if (kept == 2) {
    answer.answer.is_err = true;
    answer.answer.val.err.kind = TYPES_TOOL_ERROR_FAILED;
    answer.answer.val.err.message = string("the notebook is full");
  } else {
    snprintf(json, 32, "%d", ++kept);
    answer.answer.val.ok = string(json);
  }
  return answer;
}

// Answers all calls of a step, and returns the next step.
static sandbox_step_t answer_calls(sandbox_borrow_started_t started, const sandbox_list_tool_request_t *calls) {
  sandbox_list_tool_answer_t answers = {calloc(calls->len, sizeof *answers.ptr), calls->len};
  char(*texts)[32] = calloc(calls->len, sizeof *texts);
  if (!answers.ptr || !texts) abort();
  for (size_t i = 0; i < calls->len; i++) answers.ptr[i] = remember(&calls->ptr[i], texts[i]);
  sandbox_step_t next;
  sandbox_sandbox_error_t error;
  uint64_t wait_ms = 1000;
  check(sandbox_method_started_continue(started, &answers, &wait_ms, &next, &error), &error);
  free(texts);
  free(answers.ptr);
  return next;
}

// Steps through a script until it has ended, and answers its tool calls.
static sandbox_execution_t finish(sandbox_borrow_started_t started) {
  sandbox_list_tool_request_t none = {NULL, 0};
  sandbox_step_t step = {.tag = SANDBOX_STEP_RUNNING};
  while (step.tag != SANDBOX_STEP_DONE) {
    sandbox_step_t next = answer_calls(started, step.tag == SANDBOX_STEP_NEEDS_TOOLS ? &step.val.needs_tools : &none);
    sandbox_step_free(&step);
    step = next;
  }
  return step.val.done;
}

// Runs a script whose tool calls this program answers: the script runs until it needs a tool, waits, and continues with
// the answer.
static void steps(void) {
  sandbox_tool_t tool = {
      .name = string("remember"),
      .description = string("Keeps a fact, and says how many there are."),
      .arguments_schema = {true, string("{\"type\": \"object\", \"properties\": {\"fact\": {\"type\": \"string\"}}, "
                                        "\"required\": [\"fact\"]}")},
  };
  sandbox_list_tool_t tools = {&tool, 1};
  sandbox_request_t script = request(notes);
  sandbox_own_started_t started;
  sandbox_sandbox_error_t error;
  check(sandbox_start(&python, &script, &no_policy, &tools, &started, &error), &error);
  sandbox_execution_t execution = finish(sandbox_borrow_started(started));
  show_execution("steps", &execution);
  sandbox_execution_free(&execution);

  sandbox_own_files_t files;
  check(sandbox_method_started_files(sandbox_borrow_started(started), &files, &error), &error);
  show_file_of(files, "notes.txt");
  sandbox_started_drop_own(started);
}

// Makes calls that are refused before anything is executed. After an error, there is no result to free.
static void errors(void) {
  sandbox_execution_t execution;
  sandbox_sandbox_error_t error;
  sandbox_request_t script = request("print(1 + 1)");

  sandbox_runtime_t cobol = {.tag = TYPES_RUNTIME_NAMED, .val.named = string("cobol")};
  refused(sandbox_execute(&cobol, &script, &no_policy, &execution, &error), &error);
  sandbox_policy_t no_fuel = {.limits = {true, {.fuel = {true, 0}}}};
  refused(sandbox_execute(&python, &script, &no_fuel, &execution, &error), &error);
  sandbox_policy_t short_source = {.limits = {true, {.source_bytes = {true, 8}}}};
  refused(sandbox_execute(&python, &script, &short_source, &execution, &error), &error);
  sandbox_policy_t short_input = {.limits = {true, {.stdin_bytes = {true, 2}}}};
  script.stdin_ = (client_option_list_u8_t){true, bytes("abc")};
  refused(sandbox_execute(&python, &script, &short_input, &execution, &error), &error);

  sandbox_tool_t tool = {.name = string("no name")};
  sandbox_list_tool_t tools = {&tool, 1};
  sandbox_own_started_t started;
  refused(sandbox_start(&python, &script, &no_policy, &tools, &started, &error), &error);

  sandbox_own_blob_t state = sandbox_constructor_blob();
  client_list_u8_t contents = bytes("no session");
  check(sandbox_method_blob_append(sandbox_borrow_blob(state), &contents, &error), &error);
  sandbox_own_session_t session;
  refused(sandbox_static_session_resume(&python, sandbox_borrow_blob(state), &no_policy, &no_options, &session, &error), &error);
  sandbox_blob_drop_own(state);
}

static void session_errors(sandbox_borrow_session_t session) {
  sandbox_sandbox_error_t error;
  refused(sandbox_method_session_undo_to(session, 1000000, &error), &error);
  sandbox_own_files_t files;
  check(sandbox_method_session_files(session, &files, &error), &error);
  client_string_t path = string("missing.txt");
  sandbox_file_entry_t entry;
  refused(sandbox_method_files_stat(sandbox_borrow_files(files), &path, &entry, &error), &error);
  sandbox_files_drop_own(files);

  // A session runs one execution at a time. Until the started execution has ended, the session refuses other calls.
  sandbox_request_t sleep = request("import time\ntime.sleep(60)");
  sandbox_own_started_t started;
  check(sandbox_method_session_start(session, &sleep, &started, &error), &error);
  sandbox_request_t other = request("");
  sandbox_execution_t execution;
  refused(sandbox_method_session_execute(session, &other, &execution, &error), &error);
  sandbox_method_started_cancel(sandbox_borrow_started(started));
  execution = finish(sandbox_borrow_started(started));
  show_execution("outcome", &execution);
  sandbox_execution_free(&execution);
  refused(sandbox_method_started_files(sandbox_borrow_started(started), &files, &error), &error);
  sandbox_started_drop_own(started);

  check(sandbox_method_session_close(session, &error), &error);
  refused(sandbox_method_session_execute(session, &other, &execution, &error), &error);
}

// An ordinary `main`, whose result is the host's exit code.
int main(void) {
  show_runtimes();
  sandbox_session_options_t prices = {.context = {true, string("[{\"price\": 5}, {\"price\": 7}]")}};
  sandbox_own_session_t owned;
  sandbox_sandbox_error_t error;
  check(sandbox_static_session_open(&python, &no_policy, &prices, &owned, &error), &error);
  sandbox_borrow_session_t session = sandbox_borrow_session(owned);
  work(session);
  keep(session);
  outcomes();
  steps();
  errors();
  session_errors(session);
  sandbox_session_drop_own(owned);
  return EXIT_SUCCESS;
}
