export type Call<T, R> = {
    item: T;
    resolve(result: R): void;
    reject(error: unknown): void;
    forget(): void;
    abandon(): void;
    isOver: boolean;
};
/**
 * @template T, R
 * @typedef {{ item: T, resolve(result: R): void, reject(error: unknown): void, forget(): void, abandon(): void, isOver: boolean }} Call
 */
/**
 * @template T, R
 */
export class Gather<T, R> {
    /** @param {(items: T[], signal: AbortSignal) => Promise<(item: number) => R>} work */
    constructor(work: (items: T[], signal: AbortSignal) => Promise<(item: number) => R>);
    /**
     * The result of an item, from the batch of this turn.
     * @param {T} item
     * @param {AbortSignal} [signal]
     * @returns {Promise<R>}
     */
    add(item: T, signal?: AbortSignal): Promise<R>;
    /** Begins the batch of the calls so far. */
    flush(): void;
    #private;
}
