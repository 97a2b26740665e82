(component (import "a:b/c@1.0.0" (instance (export "f" (func)))))
