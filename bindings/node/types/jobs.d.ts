export type Job<R> = {
    push(units: any, ends: Uint32Array): number;
    readonly waiting: number;
    begin(): void;
    finish(callback: (outcome: any) => void): void;
    finishHere(copies: boolean): any;
    stop(): void;
};
/**
 * @template R
 * @typedef {{
 *   push(units: any, ends: Uint32Array): number,
 *   readonly waiting: number,
 *   begin(): void,
 *   finish(callback: (outcome: any) => void): void,
 *   finishHere(copies: boolean): any,
 *   stop(): void,
 * }} Job
 */
/**
 * The items of a call. A list of the caller is read in place until others have a turn: they may change it.
 * @template T
 */
export class Items<T> {
    /** @param {Iterable<T>} items */
    constructor(items: Iterable<T>);
    isKept: boolean;
    /** @type {readonly T[]} */
    list: readonly T[];
    /** Keeps them as they are now. */
    keep(): void;
}
/**
 * Copies ids into a job, likewise.
 * @param {Job<any>} job
 * @param {Iterable<Uint32Array>} items
 * @returns {Generator<number, void, void>}
 */
export function copyIds(job: Job<any>, items: Iterable<Uint32Array>): Generator<number, void, void>;
/**
 * Copies texts into a job, a piece between two yields, which give how many bytes wait.
 *
 * Half of a surrogate pair is an error: it has no form in UTF-8. Ends are counted in units of UTF-16: those of short texts are not known in
 * bytes, since several of them become one string first.
 * @param {Job<any>} job
 * @param {Items<string>} texts
 * @returns {Generator<number, void, void>}
 */
export function copyTexts(job: Job<any>, texts: Items<string>): Generator<number, void, void>;
/** @param {string} name */
export function disposed(name: string): WindrowError;
/** @param {ArrayBufferLike} buffer */
export function isDetached(buffer: ArrayBufferLike): boolean;
/**
 * The result of a job on other threads.
 * @template R
 * @param {Job<R>} job
 * @param {Generator<number, void, void>} copies
 * @param {AbortSignal} [signal]
 * @param {Items<any>} [items] What is copied, if others may change it.
 * @returns {Promise<R>}
 */
export function run<R>(job: Job<R>, copies: Generator<number, void, void>, signal?: AbortSignal, items?: Items<any>): Promise<R>;
/**
 * The result of a job, here and now.
 * @template R
 * @param {Job<R>} job
 * @param {Generator<number, void, void>} copies
 * @returns {R}
 */
export function runHere<R>(job: Job<R>, copies: Generator<number, void, void>): R;
/**
 * The result of a job on texts, which may come from a stream.
 * @template R
 * @param {Job<R>} job
 * @param {Iterable<string> | AsyncIterable<string>} texts
 * @param {AbortSignal} [signal]
 * @returns {Promise<R>}
 */
export function runTexts<R>(job: Job<R>, texts: Iterable<string> | AsyncIterable<string>, signal?: AbortSignal): Promise<R>;
import { WindrowError } from "./errors.js";
