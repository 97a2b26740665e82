;; A component that times executions: `turn(count)` returns the duration of each execution in nanoseconds.
(module
  (import "wasi:clocks/monotonic-clock@0.2.12" "now" (func $now (result i64)))
  (import "glovebox:sandbox/sandbox@0.2.0" "execute" (func $execute (param i32 i32)))

  ;; Memory: at 16 the arguments of `execute`, at 1024 its result, at 4096 the runtime's name, at 8192 the source, at 16384
  ;; the samples; from 65536 the host's allocations for the result, reset before each execution.
  (memory (export "memory") 32)
  (global $free (mut i32) (i32.const 65536))
  ;; The runtime: `named`, with its name.
  (data (i32.const 16) "\02\00\00\00\00\10\00\00")
  (data (i32.const 4096) NAME)
  ;; The request: the source. All other fields, and the policy, are `none`.
  (data (i32.const 32) "\00\20\00\00")
  (data (i32.const 8192) SOURCE)

  (func (export "cabi_realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at
      (i32.and
        (i32.add (global.get $free) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $free (i32.add (local.get $at) (local.get $size)))
    (if (i32.gt_u (global.get $free) (i32.const 2097152)) (then unreachable))
    (local.get $at))

  (func (export "turn") (param $count i32) (result i32)
    (local $done i32)
    (local $begin i64)
    (if (i32.gt_u (local.get $count) (i32.const 1024)) (then unreachable))
    (i32.store (i32.const 24) (i32.const NAME_LEN))
    (i32.store (i32.const 36) (i32.const SOURCE_LEN))
    (block $end
      (loop $next
        (br_if $end (i32.ge_u (local.get $done) (local.get $count)))
        (global.set $free (i32.const 65536))
        (local.set $begin (call $now))
        (call $execute (i32.const 16) (i32.const 1024))
        (i64.store
          (i32.add (i32.const 16384) (i32.shl (local.get $done) (i32.const 3)))
          (i64.sub (call $now) (local.get $begin)))
        ;; Require `ok` and the outcome `completed`.
        (if (i32.load8_u (i32.const 1024)) (then unreachable))
        (if (i32.load8_u (i32.const 1032)) (then unreachable))
        (local.set $done (i32.add (local.get $done) (i32.const 1)))
        (br $next)))
    (i32.store (i32.const 8) (i32.const 16384))
    (i32.store (i32.const 12) (local.get $count))
    (i32.const 8)))
