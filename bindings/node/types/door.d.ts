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
 * The result of an outcome.
 * @template R
 * @param {Outcome<R>} outcome
 * @returns {R}
 */
export function resultOf<R>(outcome: Outcome<R>): R;
/**
 * The signal of options, if it is one and has not been aborted.
 * @param {{ signal?: AbortSignal | undefined }} options
 * @returns {AbortSignal | undefined}
 */
export function signalOf({ signal }: {
    signal?: AbortSignal | undefined;
}): AbortSignal | undefined;
