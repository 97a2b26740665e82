fn main() { println!("hello {:?}", std::env::args().collect::<Vec<_>>()); }
