export type Job<R> = {
    push(units: any, ends: Uint32Array): number;
    begin(): void;
    finish(callback: (outcome: any) => void): void;
    finishHere(): any;
    stop(): void;
};
/**
 * Copies ids into a job, likewise.
 * @param {Job<any>} job
 * @param {Iterable<Uint32Array>} items
 * @returns {Generator<number, void, void>}
 */
export function copyIds(job: Job<any>, items: Iterable<Uint32Array>): Generator<number, void, void>;
/**
 * @template R
 * @typedef {{
 *   push(units: any, ends: Uint32Array): number,
 *   begin(): void,
 *   finish(callback: (outcome: any) => void): void,
 *   finishHere(): any,
 *   stop(): void,
 * }} Job
 */
/**
 * Copies texts into a job, a piece between two yields, which give how many bytes wait.
 *
 * Half of a surrogate pair becomes U+FFFD, as everywhere in the platform where text becomes UTF-8. Ends are counted in units of UTF-16: those
 * of short texts are not known in bytes, since several of them become one string first.
 * @param {Job<any>} job
 * @param {readonly string[]} texts
 * @returns {Generator<number, void, void>}
 */
export function copyTexts(job: Job<any>, texts: readonly string[]): Generator<number, void, void>;
/**
 * The result of a job on other threads.
 * @template R
 * @param {Job<R>} job
 * @param {Generator<number, void, void>} copies
 * @param {AbortSignal} [signal]
 * @returns {Promise<R>}
 */
export function run<R>(job: Job<R>, copies: Generator<number, void, void>, signal?: AbortSignal): Promise<R>;
/**
 * The result of a job, here and now.
 * @template R
 * @param {Job<R>} job
 * @param {Generator<number, void, void>} copies
 * @returns {R}
 */
export function runHere<R>(job: Job<R>, copies: Generator<number, void, void>): R;
