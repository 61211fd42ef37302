"""Codebooks of the IQ block types: tables of groups of eight or four weights.

A word holds the codes of one group: two bits for each of eight weights, or four bits for each of
four. The words of a book rise, so that their differences are kept, low bytes before high bytes,
deflated.
"""

from __future__ import annotations

import base64
import functools
import zlib

import numpy as np
from numpy.typing import NDArray

_SIZES = {
    "iq2_xxs": 256, "iq2_xs": 512, "iq2_s": 1024, "iq1": 2048, "iq3_xxs": 256, "iq3_s": 512,
}  # fmt: skip
"""Words of each book, in the order in which they are kept."""


@functools.cache
def codebook(name: str) -> NDArray[np.int32]:
    """Return the words of a book."""
    start = 0
    for book, size in _SIZES.items():
        if book == name:
            return _words()[start : start + size]
        start += size
    raise KeyError(name)


@functools.cache
def _words() -> NDArray[np.int32]:
    halves = np.frombuffer(zlib.decompress(base64.b85decode(_KEPT)), np.uint8).reshape(2, -1)
    steps = halves[0].astype(np.int64) | (halves[1].astype(np.int64) << 8)
    return (np.cumsum(steps) & 0xFFFF).astype(np.int32)


_KEPT = (
    'c-qxhZ;Tby72kXAz4PwO+&9Dfx9`u+dvD&dEGx^x!!3%|TA@Ux1e4mpgXPt?YYnWdSYm6TW)q8PKd6WsrN)McTeTr+sI'
    'sPMY!F#$+BDHbG=4N`r0FMPY}yYdjg38LX5OELMF^naCc86p@44sv&hPxrnb|Jj9AaF90a>n<$vsfH2G??MZF(I1(TBN'
    'C;F^)EaGkE>wSQqYu_snt>(?c&<niQnlQ;c2`7zp+{XQ)xRIY0Ezf?J<a<cFGXTN)>`y;Nas~?sJXI=qyW3dc}%df%bx'
    'Yqr<)eD#I$^GQ$@i4G*EDW;CUtN}y?kXqwtjdk%f0q1!p{+c&*{r;|ewQ*;Y*bC&eD}wn!=6vSe<Y#SfAF`@bamj_jc?'
    'vQEp2$<jW<ADzxt8%z`OsVEd1$P?|ATf{{@KuN2k592Y3ACSZ{B<`uyoTR{rAC+^Ro(7UmB;hBx`>N-WS{85@gM&?H>a'
    '3RB({-c~4pwfl@i5M<G^NR;<--Cck+lM&O>Lni~iRU=x|ZeQJRjh*2_TiH$*)ig|?+p0g^T#~W0hi<F0>6Ncx1(v0+eM'
    'pXdw7C|Apfmm${!zt)y>|_4;X0q4U7fgXJil*5LHEkx!e0mW<nA_LF7_t6j>xizT7YbJHsT{dvl9#Njcl`S)H7t_I)@U'
    '&I)Cu9HbK?BL=C*Lc3UmbMa6HZJ?huD-Oxx6x$E}!!*?dhk<+)Z*4Kag{oVhq%Ek}wJ@(-p&Y?B|Rp^Hr<(*K6{ZS|>%'
    'metKf6eZ-V?Vz08C6`_5B+y}cPS^ih2*qsvUknDhj+_wYxVAScxA!H7vEk#jk@l(embKzjDXR*$)DbMYWRU}F!reW&*2'
    '5wp5HWo{efpgAX3)OtS^sAPP*rs*IQ_5bx=ynX`JDs>D&tsn!%ZHQJy6@Jr+5N_}|rvD6?%->2}vBJ~zvup}Q-=9RvE;'
    'jkkjrnn%ODthu4*5&KRouhi&W^P$ej=K$HcKuDXAt4nH8rsd}5WXmdl!`;;PompWXu4h?cM!HO_2L7y^0R_DZN?V%5%@'
    'eG<KwXeO9AduFM<>60Ft?_!C2Y#JFsBN-Nrc%^m$}&ywc3+y@aN=ApRaQl)sfZC{l3oK?g{GQxrI8TCSSmGKD&3m?Y8@'
    '1@XWTJt^QzS<nLRElv<IL&cc+RKwRq^vcpN$DlNJH0CxSx;qfK8MkAU9G%7+7>OedlK(HA3nv^lRnQ4M7&xaAmCk>~tf'
    'Oj_dO^c3S2Lpa1^rt)14os}Wcxc<m860jl8@HC8qjc}Btut@lMUAMi5_hU+7Com>Nt+E4lCG}nspnVysr1mR*FFL`21a'
    '|s{uegRi5|_t?ZF$Ho<<lxa%Kk<VI}}Y+TYsT@6pPZS-gn}5yQ)N-1L-|7F()xoipa*LRLzH;eDvZ>;gej!p8|Y5OAlM'
    '<euhod)upQL)eNtHuGF2@MZwf=+5X$^pMlwaT^OPLvb^KwzjCZ#34OI!GK`Mvcsubn5cm}q=Pc0g)eg(fhyS}7=##c*O'
    'M_p@bOt}Are}d;GG?KWWiz<fN=;@Wd`sde{v)X!4A3sra0|;LUC7)OE(&bbP9-s!~|dnQ3MJd_>r=#7$zY3XxxEPlnyZ'
    '_#kP<M#1c`_d?eCz5l}5b8fDwyx*ltl7(ZIP=F?V}CQg_tXyidEagWw28?uP270N&8{<;k@jrFye>H*8z)-D83P;e9zG'
    '!%xekT5AD3~aNl(N+++qp;HLGsC&EOe#4-6ktdqj0RG`DYJ=ZYE+xCA5xLL1eccd?L<8-7DQ%PH8hh%4MN+@npL9FN>`'
    '#hpq}x3i&^ws6T%Ksli5IrxJoqS1qv8rHMEd+F&50-pgPD@T`*w?7Q9@rw?jc;iwG~kPKG;|(fr1j&0wM)YDiK98OGJT'
    'gukTudMGM%5tEp81eH8OxIr)2D32PJ61|k7%uMcModvT-nGSOkp&n5%VX`cQmQ^8-n7gcnU|FYRqj0UT&C}>hG#>)qYI'
    'p~ce4Exe5gutn7I_}r390C2YXF{`W=~ir41_+AQIc@GPTD&=^_&nYIH4ONE)B_05|||}kYuu^3WRb`AYLtlb_Jfxxb;9'
    'pnhB0QhIPWbf}v<8j7z?lNo+{92$gpq<{=PU^mP)oY#G;pP>?3-LCf;Nrh<4tL=p3+c|ZV0V%j!<VQItkz>qwL4Q!#0m'
    ';iAfriOBjDNo0otq6i7ltpI2jOv;L!^R4VaS7MZ+XQ99M9~qTN19DT3Z2t7^ymez24n+e;9(zkOvT06e=X}BI5Ojc^fx'
    'HS@&5}%fbp9h5U4JkD9(foyyCzSs7KMGO{?DYlBL<JMYe^3n#YYk8qj$qF=r}sSklqtSVDY#Q0uauu!W+TM-|ITn}vcd'
    'gAP9d>J+OSq2itksm;Ncn^UkN4WT_+QzNUIY))Jy1k28+BW{L*H>lG1Z6rm^2*gC)u6Y3@Q@~J2^#pzJSk%lG^J!K!qV'
    'Fe~&V`mxXe<VwY*??xf(7O9%dC$YaYrW!d~u5f)H1qV%2n|0tJom;y#^SjdFD|35!OJ9=F0;Ay$M-}27wOe8Fs)<N<)-'
    '^ngkT|S(4-lP0=i#6Wzs;?zxiWwb<CvHfdF96F?k<32tHq?893Z73HS9DO`5J1?-^GKEs66`WO4+DG&A;gZ@939}zHAn'
    'kH-fg_L;|To?XM&+eN2P)cO{gJS(D(K~pcSegxtgq=76fUezPVNQXIE;DB4h%4&iWa(&MVfYD1Eq|RN4rSuxA_d1Fo*D'
    '9=@BLqPaKGUVpXePrHS|)d1fD1!$(p|Lo10H;NS!PV{mO>Y>E+9(41f8F(k)ZpJDw8jr<RxBFP-+Gbo`b-Zg|^pPHy<{'
    'ROvK;+3UYwcyBoVa;7wN(mw&c`V^81CN(g2pA!dq;b0z|KZ<KOL2NE8;TA=FKNHxx+!nTQ$f(Gt9O4SNqakC7$5X=Mj>'
    'DbuQ{aJ!V<VU2Pb0QU`AG;?isDG%6Nf4C&GCh9C-yVomWaFDaiL^9mP9N9oh0q#lhhK9VTyRgc^V-Vu{4(WePCIBNAMy'
    'M1a4YaoT<<y@k^DYYX;ltad0@|*LdP6N3q9aR#FuBKJ3E;9d)`78hP$=y@Ed(Ph`wgaSCMN8~P=ku~P9@U2^D>Jh+u~P'
    '!KMH@RQ=Pq>}`1#ucQS1PG@z<w)&T9Pu1BY&@APzBo9Ga8qw#CW70p>pz99<vJ1{k3d}NWISs-2jYR+-h$qgx#9p6R?k'
    '$H9+f>QXU0L7crNWcK_X1tvOkfG8^u?onJvcC&VKGC({HB-;geY?eL~C*P5ZHLz1-`h;?7h$UjApPe2A}D`rB{53m*%7'
    '>8Gu<Gwr6z@H*Fq?N(;0y!0}by850!yZoK5^Zc+2+>z(rX7kuI*BIWg%ohiMd84qliEJ(5Gi2uj$QWx|bur#$1fE6Lrm'
    'jo<VV7<vFTn*nzaMr^7nw^;lASjTHveO*8bLWa%AC1S5Ule$kFr94@+=o@uA7Zrm-&ZXNoVqENP}Hol<Z<mGFMAI*_T-'
    '}c9AynVotH<CG!=4lo#Q%waDZb9%Agv=zn%4hlaeuD*x)^$tw%u((q@l`f6Qz1bOvC{92=vS2uC&3bw~pFpw`-1F)}+T'
    'Cemg=pv6_{QF;B7%Fw)@YMyzWEXIfbuO}V0%nhXl|xZ|johj$<w0FO+Y4~@f7#8W=K'
)  # fmt: skip
