/** The base of all errors of this package. */
export class WindrowError extends Error {
    /**
     * @param {string} message
     * @param {string} code
     */
    constructor(message: string, code?: string);
    /**
     * For programs: `ERR_WINDROW_ITEM`, `ERR_WINDROW_TOKENIZER`, `ERR_WINDROW_INPUT`, `ERR_WINDROW_MEMORY`, `ERR_WINDROW_DISPOSED`, `ERR_WINDROW_FAULT`,
     * `ENOENT`, `EEXIST`, `EIO` or `ERR_WINDROW`.
     * @type {string}
     */
    code: string;
}
/** A tokenizer cannot be loaded, or does not support what is asked of it. */
export class TokenizerError extends WindrowError {
}
/** A document, a file or an option of `encodeFiles` is bad. */
export class InputError extends WindrowError {
}
/** A file does not exist (`ENOENT`), exists (`EEXIST`), or cannot be read or written (`EIO`). */
export class FileError extends WindrowError {
}
/** An item of a batch has no result, so nothing of the batch is returned. */
export class ItemError extends WindrowError {
    /**
     * @param {number} item
     * @param {string} reason
     * @param {string} code
     */
    constructor(item: number, reason: string, code?: string);
    /** @type {string} */
    reason: string;
    /**
     * The index of the first such item in the batch, counting from 0.
     * @type {number}
     */
    item: number;
}
