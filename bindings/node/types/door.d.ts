export type Failure = {
    failure: string;
    message: string;
    item?: number;
};
export type Outcome<R> = R | Failure;
/** Lets the event loop go on, once this thread has had its share. */
export class Turns {
    /** Whether it is the turn of others. */
    get isOver(): boolean;
    /** Whether half of it is over. */
    get isHalfOver(): boolean;
    /** Comes back when the others had their turn. */
    next(): Promise<void>;
    #private;
}
/**
 * Place of a half of a surrogate pair in a string, with the remedy.
 * @param {string} text
 * @returns {string}
 */
export function halfOf(text: string): string;
/**
 * What a value is, for messages.
 * @param {unknown} value
 * @returns {string}
 */
export function kindOf(value: unknown): string;
/**
 * The result of a call that takes a callback. An abort ends the wait at once, and what `stop` ends soon after.
 * @template R
 * @param {(callback: (outcome: Outcome<R>) => void) => unknown} call
 * @param {AbortSignal} [signal]
 * @param {() => void} [stop]
 * @returns {Promise<R>}
 */
export function later<R>(call: (callback: (outcome: Outcome<R>) => void) => unknown, signal?: AbortSignal, stop?: () => void): Promise<R>;
/**
 * Calls `end` when the signal is aborted, until the function that it returns is called.
 * @param {AbortSignal} signal
 * @param {() => void} end
 * @returns {() => void}
 */
export function onAbort(signal: AbortSignal, end: () => void): () => void;
/**
 * The options of a call: none for null and undefined.
 * @template {object} O
 * @param {O | null | undefined} options
 * @param {string} call
 * @param {readonly string[]} names
 * @returns {O}
 */
export function optionsOf<O extends object>(options: O | null | undefined, call: string, names: readonly string[]): O;
/**
 * Reason of an aborted signal. Polyfills may have none.
 * @param {AbortSignal} signal
 * @returns {unknown}
 */
export function reasonOf(signal: AbortSignal): unknown;
/**
 * The result of an outcome.
 * @template R
 * @param {Outcome<R>} outcome
 * @returns {R}
 */
export function resultOf<R>(outcome: Outcome<R>): R;
/**
 * The signal of options, if it is one and has not been aborted. Signals of other realms and polyfills are welcome.
 * @param {{ signal?: AbortSignal | null | undefined }} options
 * @returns {AbortSignal | undefined}
 */
export function signalOf({ signal }: {
    signal?: AbortSignal | null | undefined;
}): AbortSignal | undefined;
/**
 * A string that has a form in UTF-8.
 * @param {unknown} value
 * @param {string} name
 * @returns {string}
 */
export function stringOf(value: unknown, name: string): string;
/** @param {AbortSignal | undefined} signal */
export function throwIfAborted(signal: AbortSignal | undefined): void;
