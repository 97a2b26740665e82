import type { Shape } from "./shapes";

interface Point { x: number; y?: number }
type Maybe<T> = T | null | undefined;
type Handler = (event: { name: string }) => void;
declare const unused: unique symbol;
declare function nowhere(): never;

const points: readonly Point[] = [{ x: 1, y: 2 }, { x: 3 }];
let found: Maybe<Point> = points.find((point: Point): boolean => point.y === undefined);
const sum = (...numbers: number[]): number => numbers.reduce((a, b) => a + b, 0);
const identity = <T,>(value: T): T => value;
const later = async <T>(value: T): Promise<T> => value;
const settings = { mode: "fast", level: 3 } as const satisfies Record<string, unknown>;
const table: Map<string, Array<number>> = new Map<string, number[]>([["a", [1]]]);
const handler: Handler = ({ name }) => console.log("event", name);

console.log(found!.x, sum(1, 2, 3), identity<string>("id"), settings.mode, table.get("a")![0]);
handler({ name: "click" });
for (const [key, value] of Object.entries(settings) as [string, unknown][]) console.log(key, value);
try {
  throw new Error("caught");
} catch (error: unknown) {
  console.log((error as Error).message);
}
later(5).then((value: number) => console.log("later", value));
