/**
 * How far a run has come.
 */
export type Progress = {
    /**
     * Bytes of the inputs, as stored, whose documents are encoded.
     */
    storedBytes: number;
    /**
     * Those of all inputs, if known.
     */
    totalBytes?: number | undefined;
    /**
     * Documents that are encoded.
     */
    documents: number;
    /**
     * Bytes of their text.
     */
    textBytes: number;
    /**
     * Their ids, without those that end documents.
     */
    tokens: number;
};
/**
 * What `encodeFiles` has done: the object of `windrow encode --json`, and the notes of the command.
 */
export type Summary = {
    /**
     * `read = written + skipped + failed`.
     */
    documents: {
        read: number;
        written: number;
        skipped: number;
        failed: number;
    };
    /**
     * Of text, in the written documents.
     */
    bytes: number;
    tokens: number;
    /**
     * Ids of special tokens that come from the texts.
     */
    special_tokens: number;
    inputs: {
        name: string;
        documents: number;
        bytes: number;
        tokens: number;
    }[];
    tokenizer: string;
    format: string;
    dtype: string | null;
    /**
     * The id after each document.
     */
    eos: number | null;
    seconds: number;
    outputs: string[];
    notes: string[];
};
export type FilesOptions = {
    /**
     * A tokenizer, a tiktoken name, or the path to a file. Default: `o200k_base`.
     */
    tokenizer?: string | URL | Tokenizer | null | undefined;
    /**
     * Is called some ten times a second, and at the end. What it throws ends the run.
     */
    progress?: ((progress: Progress) => void) | null | undefined;
    /**
     * Ends the run; nothing is published then.
     */
    signal?: AbortSignal | null | undefined;
};
/**
 * The options of the command `windrow encode`, and those of a call.
 */
export type EncodeFilesOptions = import("./options.js").RunOptions & FilesOptions;
/**
 * Encodes files into token files, as `windrow encode` does, and returns its account.
 *
 * After an error nothing is published. A bad document or option is an `InputError`, a file that cannot be read or written a `FileError`.
 * @param {string | URL | Iterable<string | URL>} inputs Files, folders or patterns.
 * @param {string | URL} output The prefix of the files to write.
 * @param {EncodeFilesOptions | null} [options]
 * @returns {Promise<Summary>}
 */
export function encodeFiles(inputs: string | URL | Iterable<string | URL>, output: string | URL, options?: EncodeFilesOptions | null): Promise<Summary>;
/**
 * A tokenizer, from all that names one. What is loaded here treats special tokens as it will be used.
 * @param {unknown} tokenizer
 * @param {boolean} encodeSpecialTokens
 * @returns {Promise<Tokenizer>}
 */
export function loadedOf(tokenizer: unknown, encodeSpecialTokens: boolean): Promise<Tokenizer>;
/**
 * A value for JSON.
 * @param {any} value
 * @param {string} name
 * @returns {unknown}
 */
export function plainOf(value: any, name: string): unknown;
/**
 * The name of an option in JSON.
 * @param {string} name
 * @returns {string}
 */
export function snakeOf(name: string): string;
import { Tokenizer } from "./tokenizer.js";
