;; A command that writes `hello` and nothing else.
(component
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $io-error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer 1 $io-error (type $e))
    (export "error" (type $e2 (eq $e)))
    (export "output-stream" (type $out (sub resource)))
    (type $se (variant (case "last-operation-failed" (own $e2)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $se)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $out)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $output-stream))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output-stream (type $out))
    (export "get-stdout" (func (result (own $out))))))
  (core module $memory (memory (export "memory") 1) (data (i32.const 64) "hello\n"))
  (core instance $m (instantiate $memory))
  (alias core export $m "memory" (core memory $mem))
  (core func $get-stdout (canon lower (func $stdout "get-stdout")))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory $mem)))
  (core module $code
    (import "h" "get-stdout" (func $get-stdout (result i32)))
    (import "h" "write" (func $write (param i32 i32 i32 i32)))
    (func (export "run") (result i32)
      (call $write (call $get-stdout) (i32.const 64) (i32.const 6) (i32.const 16))
      (i32.const 0)))
  (core instance $c (instantiate $code (with "h" (instance (export "get-stdout" (func $get-stdout)) (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $c "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))
