throw { get message() { throw new Error("inner"); }, get stack() { throw new Error("stack"); }, toString() { throw new Error("text"); } };
